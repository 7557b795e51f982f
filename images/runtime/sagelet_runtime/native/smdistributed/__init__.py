"""Stands in for SageMaker's smdistributed in the jobs that ask for its data parallel library."""
