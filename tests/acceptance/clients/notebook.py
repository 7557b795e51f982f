"""Runs the Python cells of a Markdown file in a Jupyter kernel, in the working directory. Prints one JSON object."""

import json
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main() -> None:
    cells = re.findall(r"^```python\n(.*?)^```$", Path(sys.argv[1]).read_text(), re.DOTALL | re.MULTILINE)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    printed = "".join(output["text"] for output in outputs if output.get("name") == "stdout")
    results = [output["data"]["text/plain"] for output in outputs if output["output_type"] == "execute_result"]
    print("ANSWER " + json.dumps({"printed": printed, "results": results}))


if __name__ == "__main__":
    main()
