"""What PyTorch's Dynamo does for a job: it traces the model once, for Inductor or for XLA."""
