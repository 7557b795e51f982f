"""What a worker did and how long it took, written to `SAGELET_REPORT_DIR/worker-RANK.json` while it trains.

The script is not changed: the calls that it makes anyway are counted. Nothing here may fail the script, change what it
computes, or cost a measurable time. `docs/reference/compiler-report.md` says what each figure means.
"""
