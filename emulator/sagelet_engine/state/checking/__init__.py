"""`sagelet check`: is what a data directory says true, and what can be mended."""
