"""Runs a notebook in a Jupyter kernel, in the working directory, and writes it with its outputs.

`notebook.py NOTEBOOK WRITTEN`. What is said with paths of this machine is not kept: stderr, and where the SDK looks for
its configuration.
"""

import sys

import nbformat
from nbclient import NotebookClient


def main() -> None:
    source, written = sys.argv[1:]
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(notebook, timeout=1200, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if is_kept(output)]
    # As it was: the kernel's own version would come into it.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, written)


def is_kept(output: nbformat.NotebookNode) -> bool:
    if output.get("name") == "stdout":
        return not output["text"].startswith("sagemaker.config INFO")
    return output.get("name") != "stderr"


if __name__ == "__main__":
    main()
