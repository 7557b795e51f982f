"""Bringing unchanged client programs to the emulator: variables, and what their Pythons run at start (`site/`)."""
