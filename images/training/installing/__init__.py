"""Installs Python packages by uv, or by pip where uv cannot be had. Standard library only, Python 3.9.

`pip_settings` translates pip's configuration for uv. `tool` finds uv, or installs it. `remote_wheel` reads parts of a
wheel from an index. `progress` shows what long work does.
"""
