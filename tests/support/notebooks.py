"""Reads a notebook file and the results of its cells."""

import json
import re
from pathlib import Path
from typing import Any


class Notebook:
    def __init__(self, file: Path) -> None:
        self.file = file
        self._cells: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["cells"]

    @property
    def code(self) -> list[str]:
        """The source of each code cell."""
        return ["".join(cell["source"]) for cell in self._cells if cell["cell_type"] == "code"]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return [output for cell in self._cells for output in cell.get("outputs", ())]

    @property
    def printed(self) -> str:
        """Everything that went to stdout."""
        return "".join("".join(output["text"]) for output in self.outputs if output.get("name") == "stdout")

    @property
    def job_names(self) -> list[str]:
        """Results of cells that end in a job's name."""
        results = ("".join(data.get("text/plain", "")) for data in self._data())
        return [found[1] for result in results if (found := re.fullmatch(r"'([\w-]+)'", result))]

    @property
    def pictures(self) -> list[str]:
        """PNGs in base64."""
        return ["".join(data["image/png"]) for data in self._data() if "image/png" in data]

    @property
    def tables(self) -> list[str]:
        """HTML of data frames."""
        return ["".join(data["text/html"]) for data in self._data() if "text/html" in data]

    def _data(self) -> list[dict[str, Any]]:
        return [output["data"] for output in self.outputs if "data" in output]
