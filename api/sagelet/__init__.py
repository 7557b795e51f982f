"""sagelet for Python programs: what users import. The server and the engine are `sagelet_api` and `sagelet_engine`."""

from sagelet_engine import __version__ as __version__

__all__ = ["__version__"]
