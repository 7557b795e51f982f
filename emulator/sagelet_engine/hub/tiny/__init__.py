"""Small random models in the shape of well-known ones. Standard library only: no torch, no download."""
