//! The operations of DynamoDB on items.

/// The operations that fairlock uses on items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetItem,
    Query,
    PutItem,
    UpdateItem,
    DeleteItem,
    BatchWriteItem,
    Scan,
}

impl Operation {
    pub(crate) const ALL: [Operation; 7] = [
        Operation::GetItem,
        Operation::Query,
        Operation::PutItem,
        Operation::UpdateItem,
        Operation::DeleteItem,
        Operation::BatchWriteItem,
        Operation::Scan,
    ];

    /// DynamoDB's name for the operation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::GetItem => "GetItem",
            Operation::Query => "Query",
            Operation::PutItem => "PutItem",
            Operation::UpdateItem => "UpdateItem",
            Operation::DeleteItem => "DeleteItem",
            Operation::BatchWriteItem => "BatchWriteItem",
            Operation::Scan => "Scan",
        }
    }
}
