"""Small random models, by the Transformers of the jobs' own Python: this one's, or that of the training image."""

import importlib.util
import io
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine import hub
from sagelet_engine.base.errors import RuntimeUnavailable, SageletError, SettingsError
from sagelet_engine.hub.families import NAMES, family_of
from sagelet_engine.hub.store import Draft
from sagelet_engine.images.engine import ProgramFailed, Written, connect, image_id, run_python
from sagelet_engine.images.variants import training_image

SCRIPT = Path(hub.__file__).with_name("tiny_model.py")
#: What the script imports.
NEEDED = ("torch", "transformers", "tokenizers")
_IN_IMAGE = "/tmp/model"
#: Letters of a failed program's output that an error repeats.
_TAIL = 2000


class ModelNotMade(SageletError):
    """The program that makes the model failed."""


@dataclass(frozen=True)
class TinyModel:
    family: str
    parameters: int
    #: By path.
    files: Mapping[str, bytes]

    def put_in(self, draft: Draft) -> None:
        for path, content in self.files.items():
            draft.put(path, io.BytesIO(content), len(content))


def tiny_model(repository: str, like: str | None = None) -> TinyModel:
    """Makes a model. Raises SettingsError for an unknown family, and where nothing has Transformers; ModelNotMade."""
    family = like or family_of(repository)
    if family not in NAMES:
        raise SettingsError(
            f"{like or repository}: belongs to no family that can be made here: name one with --like "
            f"({', '.join(NAMES)}), or bring the real one with `sagelet hub add`"
        )
    words = ["-c", SCRIPT.read_text(encoding="utf-8"), family, repository]
    is_here = all(importlib.util.find_spec(name) is not None for name in NEEDED)
    try:
        written = _here(words) if is_here else _in_image(words)
    except ProgramFailed as error:
        raise ModelNotMade(f"The model was not made: {str(error)[-_TAIL:]}") from error
    if written is None:
        raise SettingsError(
            f"Small models are made by Transformers, which neither {sys.executable} has nor an image "
            f"{training_image()}: run `sagelet install-torch` or `sagelet image build`"
        )
    return TinyModel(family, int(written.printed.split()[-1]), written.files)


def _here(words: list[str]) -> Written:
    with tempfile.TemporaryDirectory() as directory:
        # Python's `-c` imports from the working directory first, where a user's script may have the name of a module.
        command = [sys.executable, *words, directory]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProgramFailed(done.stderr)
        return Written(done.stdout, {path.name: path.read_bytes() for path in Path(directory).iterdir()})


def _in_image(words: list[str]) -> Written | None:
    """Returns None if no engine answers, or if it has no training image."""
    with suppress(RuntimeUnavailable), closing(connect()) as client:
        if image_id(client, training_image()) is not None:
            return run_python(client, training_image(), [*words, _IN_IMAGE], _IN_IMAGE)
    return None
