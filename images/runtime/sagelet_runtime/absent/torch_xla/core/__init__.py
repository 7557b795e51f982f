"""torch_xla.core: the model's module."""
