//! The tags of a table, page by page: DynamoDB does not answer with all tags of a table at once, and the database does.

use dynoxide::actions::list_tags_of_resource::{
    ListTagsOfResourceRequest, ListTagsOfResourceResponse,
};
use dynoxide::{Database, DynoxideError};
use serde::{Deserialize, Serialize};

/// How many tags a page has at most.
const PAGE: usize = 10;

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    #[serde(flatten)]
    of: ListTagsOfResourceRequest,
    #[serde(rename = "NextToken")]
    from: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Page {
    #[serde(flatten)]
    page: ListTagsOfResourceResponse,
    #[serde(rename = "NextToken", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// ListTagsOfResource. A token is the number of tags on the pages before.
pub(crate) fn page(db: &Database, request: Request) -> Result<Page, DynoxideError> {
    let from = request.from.as_deref().unwrap_or("0");
    let from: usize = from.parse().map_err(|_| no_token())?;
    let mut page = db.list_tags_of_resource(request.of)?;
    if from > page.tags.len() {
        return Err(no_token());
    }
    page.tags.drain(..from);
    let next = (page.tags.len() > PAGE).then(|| (from + PAGE).to_string());
    page.tags.truncate(PAGE);
    Ok(Page { page, next })
}

fn no_token() -> DynoxideError {
    DynoxideError::ValidationException("Invalid NextToken".to_owned())
}
