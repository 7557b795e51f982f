"""Runs what a training step does again and again as programs that were traced once: the optimizer, and clipping."""
