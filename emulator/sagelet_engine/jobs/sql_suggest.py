"""The SQL of GetSearchSuggestions: which hyperparameters, tags and metrics the jobs of a region have."""

from typing import Any

_NAMES = """
    WITH mine AS (SELECT id FROM jobs WHERE account = ? AND region = ?), names AS (
        SELECT 'HyperParameters.' || name AS name FROM hyperparameters JOIN mine ON id = job_id
        UNION SELECT 'Tags.' || key FROM tags JOIN mine ON id = job_id
        UNION SELECT 'Metrics.' || name FROM metric_points JOIN mine ON id = job_id
    )
    SELECT name FROM names WHERE substr(name, 1, length(?)) = ? ORDER BY name LIMIT ?
"""


def names(account: str, region: str, beginning: str, limit: int) -> tuple[str, tuple[Any, ...]]:
    """A query for the names that begin so, in order, and its parameters."""
    return _NAMES, (account, region, beginning, beginning, limit)
