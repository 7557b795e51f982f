"""Brings unchanged client programs to the emulator, with variables and with code that their Pythons run at start
(`site/`).
"""
