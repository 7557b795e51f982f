"""Stands in for SageMaker's smdistributed in jobs that ask for its data parallel library."""
