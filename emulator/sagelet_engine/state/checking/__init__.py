"""`sagelet check`: finds what in a data directory is wrong, and repairs what can be repaired."""
