# The buckets and the role of a pipeline, on sagelet. Only the provider block differs from AWS.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "endpoint" {
  type    = string
  default = "http://127.0.0.1:4599"
}

provider "aws" {
  region     = "us-east-1"
  access_key = "123456789012"
  secret_key = "sagelet"

  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  s3_use_path_style           = true

  endpoints {
    iam       = var.endpoint
    s3        = var.endpoint
    sagemaker = var.endpoint
    sts       = var.endpoint
  }
}

resource "aws_s3_bucket" "training" {
  bucket        = "training-data"
  force_destroy = true
}

resource "aws_s3_object" "data" {
  bucket  = aws_s3_bucket.training.id
  key     = "train/data.csv"
  content = "text,label\n"
}

resource "aws_iam_role" "training" {
  name = "SageMakerTraining"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "sagemaker.amazonaws.com" }
    }]
  })
}

output "role_arn" {
  value = aws_iam_role.training.arn
}
