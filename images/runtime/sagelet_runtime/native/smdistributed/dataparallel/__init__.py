"""SageMaker's distributed data parallel library, over torch's own process groups."""
