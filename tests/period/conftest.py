#: Accelerate's own script is called test_script.py. It is not a test: it runs as a job.
collect_ignore = ["scripts"]
