"""pip's constraints, its last words, and what is said of a torch that has changed."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.requirements import held_packages as requirements
from sagelet_runtime.requirements import library_bounds, near_names, pip_errors
from sagelet_runtime.requirements.pip_errors import PipErrors
from support.packages import wheel
from support.training_host import RUNTIME

CONFLICT = """
ERROR: Cannot install torch==1.12.1 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested torch==1.12.1
    The user requested (constraint) torch==2.9.0

To fix this you could try to:
1. loosen the range of package versions you've specified

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
"""


def said(text: str) -> str:
    found = PipErrors()
    for line in text.splitlines():
        found.feed(line)
    return found.text()


def test_a_conflict_with_a_constraint_names_the_pin_and_the_remedy() -> None:
    text = said(CONFLICT)
    assert text.startswith("Cannot install torch==1.12.1 because")
    assert "The user requested torch==1.12.1. sagelet keeps torch==2.9.0" in text
    assert "SAGELET_PINS=exact" in text
    assert "for help visit" not in text


def test_of_two_constraints_of_one_package_each_is_told_apart() -> None:
    """pip makes one of them: here of sagelet's and one in /etc/pip.conf."""
    text = said(CONFLICT.replace("torch==2.9.0", "torch<=2.14.1,==2.9.0"))
    assert (
        "The user requested torch==1.12.1. Constraints of the job or of pip's configuration have torch<=2.14.1." in text
    )
    assert "sagelet keeps torch==2.9.0, which torch_xla is built for" in text


def test_a_conflict_of_a_dependency() -> None:
    text = said(CONFLICT.replace("The user requested torch==1.12.1", "torchvision 0.13 depends on torch==1.12.1"))
    assert "torchvision 0.13 depends on torch==1.12.1. sagelet keeps torch==2.9.0" in text


def test_a_conflict_with_a_constraint_of_the_jobs_own_is_not_sagelets() -> None:
    text = said(CONFLICT.replace("torch==1.12.1", "torch-fidelity").replace("torch==2.9.0", "torch-fidelity==0.3"))
    assert "Constraints of the job or of pip's configuration have torch-fidelity==0.3" in text
    assert "sagelet keeps" not in text
    text = said(CONFLICT.replace("torch==2.9.0", "torch-xla==2.9.0"))
    assert "sagelet keeps torch-xla==2.9.0" in text


def test_a_wider_constraint_of_the_jobs_own_beside_sagelets() -> None:
    text = said(
        CONFLICT.replace(
            "(constraint) torch==2.9.0", "(constraint) torch<=3\n    The user requested (constraint) torch==2.9.0"
        )
    )
    assert "Constraints of the job or of pip's configuration have torch<=3. sagelet keeps torch==2.9.0, which" in text


@pytest.mark.usefixtures("bounded")
def test_a_conflict_with_what_transformers_needs() -> None:
    text = said(
        CONFLICT.replace("torch==1.12.1", "datasets==5.2.0").replace("torch==2.9.0", "huggingface-hub>=0.34.0,<1.0")
    )
    assert "sagelet keeps huggingface-hub>=0.34.0,<1.0, which the installed Transformers needs" in text
    assert "Constraints of the job" not in text
    assert "torch_xla is built for" not in text


def test_other_errors_are_pips_own_lines_once() -> None:
    line = "ERROR: No matching distribution found for nothing"
    assert said(f"Looking in links: .\n{line}\n{line}\n") == "No matching distribution found for nothing"


#: pip 23.2, of `git+https://` in requirements.txt: what git says is passed on before.
CLONE = """
Collecting one@ git+https://git.test/one.git (from -r requirements.txt (line 1))
  Cloning https://git.test/one.git to /tmp/pip-install-i6jpbvq_/one
  Running command git clone --filter=blob:none --quiet https://git.test/one.git /tmp/pip-install-i6jpbvq_/one
  fatal: unable to access 'https://sesame@git.test/one.git/': Could not resolve host: git.test
  error: subprocess-exited-with-error

  \u00d7 git clone --filter=blob:none --quiet https://git.test/one.git /tmp/one did not run successfully.
  \u2502 exit code: 128
  \u2570\u2500> See above for output.

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

\u00d7 git clone --filter=blob:none --quiet https://git.test/one.git /tmp/one did not run successfully.
\u2502 exit code: 128
\u2570\u2500> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
"""
#: pip 23.2, of a requirements.txt in Latin-1.
CRASH = """
ERROR: Exception:
Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/pip/_internal/utils/encoding.py", line 34, in auto_decode
    return data.decode(
UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 46: invalid continuation byte
"""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (CLONE, "fatal: unable to access 'https://****@git.test/one.git/'", "did not run successfully."),
        (CRASH, "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9", "invalid continuation byte"),
        # Killed for want of memory.
        ("Collecting torch\n  Downloading torch-2.9.0.whl (900 MB)\n\n", "Downloading torch-2.9.0.whl", "(900 MB)"),
        # PIP_QUIET.
        ("", "pip printed nothing", "nothing"),
        # FORCE_COLOR.
        ("\x1b[31mERROR: No space left\x1b[0m\nWARNING: not this", "No space left", "No space left"),
    ],
)
def test_an_installation_that_failed_never_says_nothing(text: str, first: str, last: str) -> None:
    assert said(text).startswith(first)
    assert said(text).endswith(last)


#: pip 23.2, shortened.
HASHES = """
Collecting six==1.16.0 (from -r requirements.txt (line 1))
  Downloading six-1.16.0-py2.py3-none-any.whl (11 kB)
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    six==1.16.0 from https://files.test/six-1.16.0-py2.py3-none-any.whl (from -r requirements.txt (line 1)):
        Expected sha256 0000
             Got        8abb

WARNING: There was an error checking the latest version of pip.
    not this
"""
UNHASHED = """
ERROR: Hashes are required in --require-hashes mode, but they are missing from some requirements.
    einops==0.8.0 --hash=sha256:9572
"""


def test_a_hash_that_does_not_fit_has_its_package() -> None:
    """It stands in the indented lines below the error."""
    assert said(HASHES).splitlines()[1:] == [
        " six==1.16.0 from https://files.test/six-1.16.0-py2.py3-none-any.whl (from -r requirements.txt (line 1)):",
        " Expected sha256 0000",
        " Got        8abb",
    ]
    assert said(UNHASHED).endswith("\n einops==0.8.0 --hash=sha256:9572")


def test_what_a_build_says_is_not_taken_for_another_program() -> None:
    assert "did not run successfully" not in said(OLD_SOURCE)


VARIANT = "`sagelet image build --variant py39`"
#: pip 23.2, of an old source distribution.
OLD_SOURCE = """
Collecting sentencepiece==0.1.90
  Preparing metadata (setup.py): finished with status 'error'
  error: subprocess-exited-with-error

  \u00d7 python setup.py egg_info did not run successfully.
  \u2502 exit code: 1
  \u2570\u2500> [3 lines of output]
      Traceback (most recent call last):
        File "<string>", line 2, in <module>
      ModuleNotFoundError: No module named 'distutils'
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

\u00d7 Encountered error while generating package metadata.
\u2570\u2500> See above for output.
"""
#: pip 23.2, whose package wants a compiler of its own; and pip 25.
OLD_BUILD = """
  Building wheel for tokenizers (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
  \u2570\u2500> [2 lines of output]
      error: can't find Rust compiler

      [end of output]
  ERROR: Failed building wheel for tokenizers
Failed to build tokenizers
ERROR: Could not build wheels for tokenizers, which is required to install pyproject.toml-based projects
"""
NEW_BUILD = """
error: failed-wheel-build-for-install

\u00d7 Failed to build installable wheels for some pyproject.toml based projects
\u2570\u2500> tokenizers
"""


@pytest.mark.parametrize(
    ("text", "said_so"),
    [
        (OLD_SOURCE, ("sentencepiece==0.1.90", "No module named 'distutils'")),
        (OLD_BUILD, ("Could not build wheels for tokenizers", "can't find Rust compiler")),
        (NEW_BUILD, ("failed-wheel-build-for-install", "tokenizers")),
        ("ERROR: Could not find a version that satisfies the requirement x==1 (from versions: 2.0, 2.1)", ("2.1",)),
        ("ERROR: Package 'x' requires a different Python: 3.11.7 not in '<3.9'", ("requires a different Python",)),
    ],
)
def test_what_has_no_build_here_is_sent_to_an_image_of_its_day(text: str, said_so: tuple[str, ...]) -> None:
    assert all(one in said(text) for one in said_so), said(text)
    assert VARIANT in said(text)
    # An image helps no job that runs in none.
    assert "in the process runtime install sagelet into Python 3.10" in said(text)


def test_not_where_that_image_is_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_errors, "_OF_THEN", (4, 0))
    assert VARIANT not in said(OLD_BUILD)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: No matching distribution found for misspelt",
        "ERROR: Could not find a version that satisfies the requirement zz==1 (from versions: none)\n"
        "ERROR: No matching distribution found for zz==1",
        "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)",
        "ERROR: Could not open requirements file",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        CONFLICT,
    ],
)
def test_not_for_what_is_missing_on_any_day(text: str) -> None:
    assert VARIANT not in said(text)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("reqeusts", "requests"),
        ("scikit_lern", "scikit-learn"),
        ("sklearn", "scikit-learn"),
        ("cv2", "opencv-python-headless"),
        ("tranformers", "transformers"),
    ],
)
@pytest.mark.parametrize("versions", ["none", "0.0.1, 0.0.2"], ids=["no such package", "somebody else's package"])
def test_a_name_is_questioned_before_a_version_is_recommended(wrong: str, meant: str, versions: str) -> None:
    text = said(
        f"ERROR: Could not find a version that satisfies the requirement {wrong}==2.31 (from versions: {versions})\n"
        f"ERROR: No matching distribution found for {wrong}==2.31"
    )
    assert f"Did you mean {meant}? requirements.txt says {wrong}" in text
    assert VARIANT not in text
    assert "ask for a version" not in text


def test_a_name_like_no_other_is_not_guessed() -> None:
    text = said("ERROR: Could not find a version that satisfies the requirement zz_none==1 (from versions: none)")
    assert "Did you mean" not in text
    assert "the index has no zz_none, or none for this Python" in text
    assert near_names.near("x" * 100_000) is None
    assert near_names.near("numpy") is None


#: pip 25, of a repository that is not there: git gives advice after the cause.
ADVICE = """
  Running command git clone --filter=blob:none --quiet file:///nowhere/at/all.git /tmp/pip-req-build-1
  fatal: '/nowhere/at/all.git' does not appear to be a git repository
  fatal: Could not read from remote repository.

  Please make sure you have the correct access rights
  and the repository exists.
  error: subprocess-exited-with-error

  \u00d7 git clone --filter=blob:none --quiet file:///nowhere/at/all.git /tmp/pip-req-build-1 did not run successfully.
  \u2502 exit code: 128
  \u2570\u2500> See above for output.

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error
"""


def test_the_reason_is_git_s_cause_and_not_its_advice() -> None:
    first = said(ADVICE).split("\n")[0]
    assert first == "fatal: '/nowhere/at/all.git' does not appear to be a git repository"
    assert "and the repository exists" not in said(ADVICE)


def test_the_remedy_fits_into_a_failure_reason() -> None:
    """AWS shows 1,024 characters, the toolkit's words around them included."""
    versions = ", ".join(f"0.{number}.0" for number in range(300))
    text = said(
        f"ERROR: Could not find a version that satisfies the requirement tokenizers<0.13 (from versions: {versions})\n"
        "ERROR: No matching distribution found for tokenizers<0.13\n"
    )
    assert len(text) < 900
    assert "0.299.0" in text
    assert VARIANT in text
    assert len(said("".join(f"ERROR: {'x' * 2000}{number}\n" for number in range(9)))) < 900


def test_what_pip_says_of_an_installation_that_went_well_is_none() -> None:
    notice = (
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed."
    )
    assert said(f"{notice}\nERROR: No space left") == "No space left"


def test_a_long_failure_keeps_its_end() -> None:
    text = said("\n".join(f"ERROR: line {number}" for number in range(100)))
    assert text.splitlines()[-1].strip() == "line 99"
    assert len(text.splitlines()) == 6


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {"torch": "2.9.0", "torch_xla": "2.9.0"}.get)


@pytest.mark.usefixtures("here")
def test_the_constraints_are_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "opt ml"
    added = requirements.constrain(str(base), {"PIP_CONSTRAINT": "/mine.txt"})
    mine, ours = added["PIP_CONSTRAINT"].split()
    assert (mine, ours) == ("/mine.txt", (base / requirements.FILE).as_uri())
    assert (base / requirements.FILE).read_text() == "torch==2.9.0\ntorch_xla==2.9.0\ntorchaudio==2.9.0\n"
    assert requirements.constrain(str(base), added) == added
    assert requirements.constrain(str(base), {"SAGELET_PINS": " Exact "}) == {}
    here = {"torch": "2.9.0+cpu", "torchaudio": "2.9.1"}
    monkeypatch.setattr(installed, "version", here.get)
    requirements.constrain(str(base), {})
    assert (base / requirements.FILE).read_text() == "torch==2.9.0+cpu\ntorchaudio==2.9.1\n"
    monkeypatch.setattr(installed, "version", {}.get)
    assert requirements.constrain(str(base), {}) == {}


@pytest.mark.usefixtures("here")
def test_uv_gets_them_too(tmp_path: Path) -> None:
    file = tmp_path / requirements.FILE
    added = requirements.constrain(str(tmp_path), {"UV_CONSTRAINT": "mine.txt"})
    assert added["UV_CONSTRAINT"] == f"mine.txt {file}"
    assert requirements.constrain(str(tmp_path), added)["UV_CONSTRAINT"] == f"mine.txt {file}"
    # It has no other way to name a path with a blank.
    blank = requirements.constrain(str(tmp_path / "opt ml"), {})
    assert blank["UV_CONSTRAINT"] == (tmp_path / "opt ml" / requirements.FILE).as_uri()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("configuration", "joined"),
    [
        ("[global]\nconstraint = /a.txt\n", ["/a.txt"]),
        ("[global]\nconstraint = /a.txt\n[install]\nconstraint =\n    /b.txt\n    c.txt\n", ["/b.txt", "c.txt"]),
        ("[global]\nno-index = true\n", []),
        ("[list]\nconstraint = /a.txt\n", []),
        ("this is none", []),
    ],
)
def test_a_constraint_of_pips_configuration_is_joined(
    configuration: str, joined: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip takes PIP_CONSTRAINT instead of it."""
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    file = tmp_path / ".config" / "pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text(configuration)
    # The machine's own configuration in /etc/xdg is not this test's.
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_CONFIG_DIRS": str(tmp_path / "etc")}
    ours = (tmp_path / requirements.FILE).as_uri()
    assert requirements.constrain(str(tmp_path), environ)["PIP_CONSTRAINT"].split() == [*joined, ours]
    # As pip has it: the variable goes first.
    given = {**environ, "PIP_CONSTRAINT": "/mine.txt"}
    assert requirements.constrain(str(tmp_path), given)["PIP_CONSTRAINT"].split() == ["/mine.txt", ours]


@pytest.mark.usefixtures("here")
def test_a_configuration_that_pip_config_file_names(tmp_path: Path) -> None:
    file = tmp_path / "own.conf"
    file.write_text("[install]\nconstraint = /a.txt\n")
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": str(file)}
    assert requirements.constrain(str(tmp_path), environ)["PIP_CONSTRAINT"].startswith("/a.txt file://")
    assert requirements.constrain(str(tmp_path), environ | {"PIP_CONFIG_FILE": "/dev/null"})[
        "PIP_CONSTRAINT"
    ].startswith("file://")


# --- what the installed Transformers needs ----------------------------------------------------------------------


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["filelock", "huggingface-hub<1.0,>=0.34.0", "tokenizers<=0.23.0,>=0.22.0", "torch<3; extra == 'torch'"]
    monkeypatch.setattr(library_bounds.metadata, "requires", {"transformers": required}.get)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("datasets >= 1.8.0\nsentence-transformers==2.2.2\n# transformers\n", False),
        ("transformers==4.21.1\n", True),
        ("Transformers[torch]\n", True),
        ("git+https://github.com/huggingface/transformers\n", True),
        ("huggingface_hub>=1\n", True),
        ("tokenizers<0.13 # then\n", True),
        ("-r more.txt\n", True),
        ("", False),
    ],
)
def test_a_file_that_chooses_the_versions_itself(wanted: str, chosen: bool, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("-r requirements.txt\ntransformers\n")
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "requirements.txt").write_text(wanted, encoding=encoding)
        assert library_bounds.chosen_by(tmp_path / "requirements.txt") == chosen


@pytest.mark.usefixtures("bounded")
def test_the_bounds_are_those_of_one_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "/mine.txt")
    bounds = tmp_path / requirements.BOUNDS
    with requirements.within_bounds(str(tmp_path), tmp_path / "requirements.txt"):
        assert os.environ["PIP_CONSTRAINT"].split() == ["/mine.txt", bounds.as_uri()]
        assert bounds.read_text() == "huggingface-hub<1.0,>=0.34.0\ntokenizers<=0.23.0,>=0.22.0\n"
    assert os.environ["PIP_CONSTRAINT"] == "/mine.txt"
    monkeypatch.setenv("SAGELET_PINS", "exact")
    with requirements.within_bounds(str(tmp_path), tmp_path / "requirements.txt"):
        assert os.environ["PIP_CONSTRAINT"] == "/mine.txt"


# --- a torch that has changed -----------------------------------------------------------------------------------


def look(site: Path, *before: str, wheels: Mapping[str, bytes]) -> tuple[int, str]:
    """`sagelet_runtime.base.installed` where these packages are installed, and torch was of other versions."""
    for content in wheels.values():
        with zipfile.ZipFile(BytesIO(content)) as archive:
            archive.extractall(site)
    (site / "torch_xla.py").touch()
    run = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.base.installed", *before],
        env={"PYTHONPATH": f"{site}:{RUNTIME}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_what_brought_another_torch_is_named(tmp_path: Path) -> None:
    wheels = {
        "torch": wheel("torch", "99.0"),
        "torch_xla": wheel("torch_xla", "2.9.0"),
        "vision": wheel("vision-for-test", "2.0", requires="torch (==99.0)"),
        "text": wheel("text-for-test", "1.0", requires="torch>=1.0"),
        "sound": wheel("sound-for-test", "1.0", requires="torch==99.0; extra == 'gpu'"),
    }
    code, said = look(tmp_path, "torch==2.9.0", "torch_xla==2.9.0", wheels=wheels)
    assert code == 1
    assert "torch_xla 2.9.0 does not load with torch 99.0" in said
    assert "torch was 2.9.0 before: vision-for-test 2.0 needs torch==99.0." in said
    assert "text-for-test" not in said
    assert "sound-for-test" not in said
    assert "torch_xla was" not in said


def test_a_torch_that_no_package_asked_for(tmp_path: Path) -> None:
    wheels = {"torch": wheel("torch", "99.0"), "torch_xla": wheel("torch_xla", "2.9.0")}
    code, said = look(tmp_path, "torch==2.9.0", "torch_xla==2.9.0", wheels=wheels)
    assert code == 1
    assert "torch was 2.9.0 before: requirements.txt itself asks for another one" in said


def test_what_brought_another_torch_xla_is_named(tmp_path: Path) -> None:
    wheels = {
        "torch": wheel("torch", "2.9.0"),
        "torch_xla": wheel("torch_xla", "99.0"),
        "vision": wheel("vision-for-test", "2.0", requires="torch-xla>=99"),
    }
    code, said = look(tmp_path, "torch==2.9.0", "torch_xla==2.9.0", wheels=wheels)
    assert code == 1
    assert "torch_xla was 2.9.0 before: vision-for-test 2.0 needs torch-xla>=99." in said


def test_a_torch_that_fits_is_no_failure(tmp_path: Path) -> None:
    wheels = {"torch": wheel("torch", "99.0"), "torch_xla": wheel("torch_xla", "99.0")}
    assert look(tmp_path, "torch==2.9.0", "torch_xla==2.9.0", wheels=wheels) == (0, "")


@pytest.mark.parametrize(
    ("command", "pip"),
    [
        (["python", "-m", "pip", "install", "-r", "x"], True),
        (["python", "-m", "pip", "list"], False),
        (["train"], False),
    ],
)
def test_what_is_pip(command: list[str], pip: bool) -> None:
    assert requirements.is_pip(command) == pip
