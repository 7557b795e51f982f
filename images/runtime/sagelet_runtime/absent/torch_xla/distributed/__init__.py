"""torch_xla.distributed: workers and their loaders."""
