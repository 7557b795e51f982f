"""The PyTorch side."""
