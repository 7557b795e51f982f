"""The doctor: what in a compiled job costs time, and what to write instead."""
