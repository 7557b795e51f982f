"""Who can read what a server writes: the request of a job may hold secrets."""

from pathlib import Path

from support.world import World


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_directory_that_was_there_shows_no_job_to_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "jobs").mkdir(parents=True)
    for place in (tmp_path, data, data / "jobs"):
        place.chmod(0o755)
    (data / "sagelet.db").touch(mode=0o644)
    world = World(tmp_path)
    files = list(data.glob("*.db*"))
    assert data / "sagelet.db-wal" in files
    assert {mode(path) for path in files} == {0o600}
    assert mode(data / "jobs") == 0o700
    world.engine.close()
