"""Compares jobs, native with compiled: pure rules on frozen facts."""
