"""What a worker did and how long it took, written to `SAGELET_REPORT_DIR/worker-RANK.json` while it trains.

The script is not asked and not changed: what it calls anyway is counted on the way. Nothing here may fail it, change
what it computes, or cost more than it can measure; `docs/reference/compiler-report.md` says what each figure means.
"""
