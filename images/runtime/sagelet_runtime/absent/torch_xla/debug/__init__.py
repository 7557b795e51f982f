"""torch_xla.debug: metrics and profiles of XLA, which does not run here."""

from . import metrics, profiler

__all__ = ["metrics", "profiler"]
