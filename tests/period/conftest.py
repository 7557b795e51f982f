#: Accelerate's own script is called test_script.py; it runs as a job.
collect_ignore = ["scripts"]
