"""How long a worker's threads waited for a CPU."""

from pathlib import Path

from sagelet_runtime.reporting.crowding import cpu_times


def test_the_threads_are_added_up(tmp_path: Path) -> None:
    for number, text in (("1", "2000000000 500000000 7\n"), ("2", "1000000000 250000000 3\n")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "schedstat").write_text(text)
    (tmp_path / "3").mkdir()  # It has ended meanwhile.
    assert cpu_times(tmp_path) == {"cpu_seconds": 3.0, "cpu_wait_seconds": 0.75}


def test_a_kernel_that_does_not_count(tmp_path: Path) -> None:
    assert cpu_times(tmp_path / "nothing") == {"cpu_seconds": 0.0, "cpu_wait_seconds": 0.0}
