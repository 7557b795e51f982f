"""GetMetricData over the points that CloudWatch holds: statistics, metric math and SEARCH.

Source of every rule: CloudWatch's user guide, "Using math expressions with CloudWatch metrics" and "CloudWatch search
expression syntax". What is not computed is refused.
"""
