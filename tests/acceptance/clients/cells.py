"""Runs the code cells of a notebook as one program, without Jupyter: `cells.py NOTEBOOK TAG...`.

Cells with one of the tags are left out. The notebook has no magic commands.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    notebook, *left_out = sys.argv[1:]
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and not set(left_out) & set(cell["metadata"].get("tags", ())):
            exec(compile("".join(cell["source"]), f"{notebook} {cell['id']}", "exec"), names)


if __name__ == "__main__":
    main()
