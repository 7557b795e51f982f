"""The engine of sagelet: training jobs, hosts, bytes and lines. It knows nothing of HTTP or AWS wire formats."""

__version__ = "0.1.0"
