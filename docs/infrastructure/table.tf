# The table of fairlock's locks, as LockClient::create_table makes it, with point-in-time recovery, deletion protection, and an IAM policy
# for each role. docs/operations.md says how to use it.
#
# This file was never applied. A check parses it and compares it with table.cloudformation.yaml. Read the plan before you apply it.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "table_name" {
  description = "The name of the table. The library and the command look for `fairlock` unless told otherwise."
  type        = string
  default     = "fairlock"
}

variable "policy_prefix" {
  description = "The names of the policies begin with this. They are the account's, so each table needs a prefix of its own."
  type        = string
  default     = "fairlock"
}

variable "lock_names" {
  description = "The names of the workers' locks, such as [\"billing/*\"]. With [\"*\"] workers may use every lock of the table."
  type        = list(string)
  default     = ["*"]
}

variable "kms_key_arn" {
  description = "The ARN of a KMS key of yours that encrypts the table. If it is null, a key that AWS owns encrypts the table."
  type        = string
  default     = null
}

variable "tags" {
  description = "The tags of the table."
  type        = map(string)
  default = {
    application = "fairlock"
    environment = "production"
  }
}

resource "aws_dynamodb_table" "locks" {
  name         = var.table_name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "pk"
  range_key    = "sk"

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  deletion_protection_enabled = true

  # Without this block a key that AWS owns encrypts the table.
  dynamic "server_side_encryption" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]
    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  tags = var.tags

  lifecycle {
    prevent_destroy = true
  }
}

# Takes turns at locks of these names.
data "aws_iam_policy_document" "worker" {
  statement {
    sid    = "Locks"
    effect = "Allow"
    actions = [
      "dynamodb:GetItem",
      "dynamodb:Query",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:BatchWriteItem",
    ]
    resources = [aws_dynamodb_table.locks.arn]
    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      # `check_table` tries its operations under the name `#fairlock-check`.
      values = concat(var.lock_names, ["#fairlock-check"])
    }
  }
}

# Removes what is settled or expired, in the whole table.
data "aws_iam_policy_document" "sweeper" {
  statement {
    sid    = "SweepLocks"
    effect = "Allow"
    actions = [
      "dynamodb:Scan",
      "dynamodb:GetItem",
      "dynamodb:Query",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:BatchWriteItem",
    ]
    resources = [aws_dynamodb_table.locks.arn]
  }
}

# Reads locks, and writes nothing: `fairlock show` and `fairlock ls`.
data "aws_iam_policy_document" "inspector" {
  statement {
    sid    = "LookAtLocks"
    effect = "Allow"
    actions = [
      "dynamodb:Query",
      "dynamodb:Scan",
    ]
    resources = [aws_dynamodb_table.locks.arn]
  }
}

# Breaks and deletes locks, checks the table, and changes its settings. For people, not for services.
data "aws_iam_policy_document" "administrator" {
  statement {
    sid    = "RepairLocks"
    effect = "Allow"
    actions = [
      "dynamodb:Scan",
      "dynamodb:GetItem",
      "dynamodb:Query",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:BatchWriteItem",
    ]
    resources = [aws_dynamodb_table.locks.arn]
  }
  statement {
    sid    = "AdministerTheLockTable"
    effect = "Allow"
    actions = [
      "dynamodb:DescribeTable",
      "dynamodb:DescribeTimeToLive",
      "dynamodb:UpdateTimeToLive",
      "dynamodb:UpdateTable",
      "dynamodb:DeleteTable",
      "dynamodb:DescribeContinuousBackups",
      "dynamodb:UpdateContinuousBackups",
      "dynamodb:ListTagsOfResource",
      "dynamodb:TagResource",
      "dynamodb:UntagResource",
    ]
    resources = [aws_dynamodb_table.locks.arn]
  }
}

# With a key of yours, each role needs this policy beside its own.
data "aws_iam_policy_document" "key" {
  count = var.kms_key_arn == null ? 0 : 1
  statement {
    sid       = "UseTheKeyOfTheLockTable"
    effect    = "Allow"
    actions   = ["kms:Decrypt"]
    resources = [var.kms_key_arn]
    condition {
      test     = "StringLike"
      variable = "kms:ViaService"
      values   = ["dynamodb.*"]
    }
  }
}

resource "aws_iam_policy" "worker" {
  name        = "${var.policy_prefix}-worker"
  description = "Takes turns at locks"
  policy      = data.aws_iam_policy_document.worker.json
}

resource "aws_iam_policy" "sweeper" {
  name        = "${var.policy_prefix}-sweeper"
  description = "Sweeps the table of locks"
  policy      = data.aws_iam_policy_document.sweeper.json
}

resource "aws_iam_policy" "inspector" {
  name        = "${var.policy_prefix}-inspector"
  description = "Inspects locks and changes nothing"
  policy      = data.aws_iam_policy_document.inspector.json
}

resource "aws_iam_policy" "administrator" {
  name        = "${var.policy_prefix}-administrator"
  description = "Breaks and deletes locks and administers their table"
  policy      = data.aws_iam_policy_document.administrator.json
}

resource "aws_iam_policy" "key" {
  count       = var.kms_key_arn == null ? 0 : 1
  name        = "${var.policy_prefix}-key"
  description = "Uses the key of the table of locks through DynamoDB"
  policy      = data.aws_iam_policy_document.key[0].json
}

output "table_name" {
  value = aws_dynamodb_table.locks.name
}

output "table_arn" {
  value = aws_dynamodb_table.locks.arn
}

output "policy_arns" {
  value = {
    worker        = aws_iam_policy.worker.arn
    sweeper       = aws_iam_policy.sweeper.arn
    inspector     = aws_iam_policy.inspector.arn
    administrator = aws_iam_policy.administrator.arn
    key           = one(aws_iam_policy.key[*].arn)
  }
}
