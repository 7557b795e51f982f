#: Accelerate's own scripts are called test_*.py; they run as jobs.
collect_ignore = ["scripts"]
