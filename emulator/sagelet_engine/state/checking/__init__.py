"""`sagelet check`: whether what a data directory says is true, and what can be repaired."""
