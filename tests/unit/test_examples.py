"""Each of AWS's documents is an example, each example says what it is, and a test runs it."""

import base64
import re
from pathlib import Path

import pytest

from support.notebooks import Notebook

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
#: `around` is of other people's tools: tests/unit/test_around_it.py.
DIRECTORIES = sorted(
    path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name[0] != "_" and path.name != "around"
)
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
#: The documents that sagelet began with -> the examples of each.
DOCUMENTS = {
    "Amazon SageMaker Training Compiler": ["gpt2"],
    "Run PyTorch Training Jobs with SageMaker Training Compiler": [
        "single_gpu",
        "hugging_face",
        "distributed",
        "launcher",
        "create_training_job",
    ],
    "SageMaker Training Compiler Best Practices and Considerations": ["best_practices"],
    "Perform automatic model tuning with SageMaker": ["tuning"],
    "Pipelines overview": ["pipelines"],
    "How to Speed Up Open Source LLMs Training": ["notebooks"],
    "Multi-Node Multi-GPU Training": ["notebooks"],
}
#: As GitHub shows it without waiting.
LARGEST_PICTURE = 300_000


def text_of(example: str) -> str:
    """Its README, without the ends of lines."""
    return " ".join((EXAMPLES / example / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("example", DIRECTORIES)
def test_an_example_has_a_readme_with_a_command_and_what_to_expect(example: str) -> None:
    readme = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\$ (make|sagelet) ", readme, re.MULTILINE)
    assert re.search(r"\bExpect\b|how their reports differ", readme)
    assert f"]({example})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", DIRECTORIES)
def test_an_example_is_run_by_a_test(example: str) -> None:
    places = [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent.name in ("acceptance", "xla")]
    users = [path for path in (*places, ROOT / "tests" / "support" / "doctor_scripts.py") if names(path, example)]
    assert users, f"no test in tests/acceptance or tests/xla runs examples/{example}"


def names(path: Path, example: str) -> bool:
    text = path.read_text(encoding="utf-8")
    return '"examples"' in text and f'"{example}"' in text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_has_its_examples(document: str) -> None:
    for example in DOCUMENTS[document]:
        assert document in text_of(example)


def test_every_example_is_of_a_document() -> None:
    assert {example for examples in DOCUMENTS.values() for example in examples} == set(DIRECTORIES)


def test_each_pair_of_the_best_practices_is_in_its_readme() -> None:
    readme = text_of("best_practices")
    wrong, right = ({path.name.removesuffix(f"_{side}.py") for path in pairs(side)} for side in ("wrong", "right"))
    assert wrong == right
    assert [name for name in wrong if f"`{name}`" not in readme] == []


def pairs(side: str) -> list[Path]:
    return list((EXAMPLES / "best_practices").glob(f"*_{side}.py"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_shows_a_run_of_its_own_cells(file: Path) -> None:
    notebook = Notebook(file)
    pictures = [base64.b64decode(picture) for picture in notebook.pictures]
    assert len(pictures) >= 2
    assert max(map(len, pictures)) < LARGEST_PICTURE
    assert len(notebook.job_names) == 2
    assert not [output for output in notebook.outputs if output["output_type"] == "error"]
    assert not re.search(r"/(root|home|tmp|Users)/", str(notebook.outputs)), "a path of somebody's machine"
    # With the hub a download needs no cell in its place.
    assert any(cell.startswith("# Offline") for cell in notebook.code) == (file.stem != "from-the-hub")
