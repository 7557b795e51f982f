"""Writes comparisons into files."""

from pathlib import Path

from sagelet_api.comparison.html import report
from sagelet_api.comparison.pictures import pictures
from sagelet_api.comparison.png import png
from sagelet_engine.comparison.result import Comparison


def write_html(comparison: Comparison, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report(comparison), encoding="utf-8")
    return path


def write_pngs(comparison: Comparison, directory: Path) -> list[Path]:
    """Writes throughput.png, loss.png, time.png and cost.png. Raises NoPillow before anything is written."""
    drawn = {directory / f"{picture.name}.png": png(picture) for picture in pictures(comparison)}
    directory.mkdir(parents=True, exist_ok=True)
    for path, data in drawn.items():
        path.write_bytes(data)
    return list(drawn)
