"""Jobs whose containers are Python functions, in a time of their own: for tests of programs that train."""
