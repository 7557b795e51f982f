"""Runs jobs whose containers are Python functions, in simulated time: for tests of programs that train."""
