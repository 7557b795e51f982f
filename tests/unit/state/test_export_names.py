"""Files of jobs whose names are not UTF-8 travel with an export."""

from pathlib import Path

from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from support.data_directory import fill


def test_names_that_are_not_utf_8_come_back(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "saved.tar.gz"
    fill(data)
    model = next(data.glob("jobs/*/*/*/algo-1/opt-ml/model")).relative_to(data)
    odd = model / "bad\udcff" / "new\nline\udcfe"
    (data / odd).parent.mkdir(parents=True)
    (data / odd).write_bytes(b"x")
    assert export_data(data, target).left_out == 0
    import_data(target, tmp_path / "new")
    assert (tmp_path / "new" / odd).read_bytes() == b"x"
