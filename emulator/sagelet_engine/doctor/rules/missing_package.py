"""A script that imports a missing module."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, quoted

#: Words of Python, and of libraries that miss an optional package.
_NAMED = (
    re.compile(r"^ModuleNotFoundError: No module named '(?P<name>[\w.]+)'"),
    re.compile(r"^No module named (?P<name>[\w.]+)$"),
    re.compile(r"^ImportError: .*\bplease (?:run )?(?:pip )?install '?`?(?:pip install )?(?P<name>\w[\w.-]*\w)"),
    re.compile(r"^ImportError: .*\brequires the (?P<name>\w[\w.-]*) library\b"),
)
#: transformers reports its own requirements like this.
_MOVED = re.compile(r"^ImportError: (?P<wanted>(?P<name>\w[\w.-]*)[\w.,<>=!~]+) is required .*\bbut found (?P=name)==")
_GONE = re.compile(r"^ImportError: cannot import name '\w+' from '[\w.]+'")
#: Modules whose packages have other names.
PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "Pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "pkg_resources": "setuptools<81",
    "pytorch_lightning": "pytorch-lightning",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
#: For GPUs, or AWS's own: docs/reference/packages.md says why.
NOWHERE = ("apex", "deepspeed", "flash_attn", "horovod", "smclarify", "smdebug", "smdistributed")
#: Modules that were in Python's library until recently.
FORMER = ("asynchat", "asyncore", "distutils", "imp")
#: Names that people give to modules of their own.
OWN = (
    "common", "config", "configs", "data", "dataset", "helper", "helpers", "lib", "model", "models", "modules", "src",
    "trainer", "util", "utils",
)  # fmt: skip
#: What pip and Python say if the jobs of `@step` and `@remote` lack the SDK.
SDK = (
    "A job of `@step` or `@remote` imports the SDK that started it. On the process runtime, install that SDK into "
    "sagelet's own environment. In Docker, sagelet's image has SDK v2; take an image of your own for v3. A script of "
    "your own may name the SDK in the requirements.txt of its source directory."
)
TABLE = "`sagelet docs reference/packages` says what the image has and what it lacks"
THEN = (
    "Take the new name, or run the script in an image of its day: `sagelet image build --variant py39`, "
    "`sagelet docs images-of-their-day`."
)


def check(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    if error is None:
        return
    instead = _remedy(error, case.processing is not None)
    if instead is None:
        return
    place = failed_at(case)
    text = f"The script ended at an import: {quoted(error)}{case.sources.quoted(place)}"
    yield Seen(Severity.ERROR, text, place, instead=instead)


def _remedy(error: str, processing: bool) -> str | None:
    named = next((found["name"] for pattern in _NAMED if (found := pattern.match(error))), None)
    if named is not None:
        return _instead(named, processing)
    moved = _MOVED.match(error)
    if moved is not None:
        return (
            f"Put `{moved['wanted']}` into the requirements.txt of the source directory, beside the package that "
            "brought another version."
        )
    return THEN if _GONE.match(error) else None


def _instead(module: str, processing: bool) -> str:
    top, _, inner = module.partition(".")
    if top == "sagemaker" and not processing:
        return SDK
    if top in NOWHERE:
        return f"Do without {top}, or have the script try the import: {TABLE}, with the reasons."
    # If a whole package is missing Python names the package.
    if inner or top in FORMER:
        return f"The installed version has no {module} any more. {THEN}"
    if processing:
        return (
            f"If it is a package, put `{PACKAGES.get(top, top)}` into the requirements.txt of a FrameworkProcessor's "
            "source_dir, or take an image that has it. A module of your own has to be beside the script: in that "
            "source_dir, or below the S3Uri of the script's input."
        )
    if top in OWN:
        return (
            f"`{top}` is probably a module of your own, which has to be in source_dir, beside the script: `source_dir` "
            "of the estimator, `sagelet submit --source-dir`. If it is a package, put it into the requirements.txt "
            "there."
        )
    return (
        f"Put `{PACKAGES.get(top, top)}` into the requirements.txt of the source directory; {TABLE}. A module of your "
        "own has to be in source_dir, beside the script."
    )


RULE = Rule(
    name="missing-package",
    why="A job has what its image has (in the process runtime, what the Python of sagelet has) and what its "
    "requirements.txt adds. The image is not AWS's: it lacks some packages, and others are newer.",
    instead=f"Put the package into the requirements.txt of the source directory; {TABLE}.",
    section=Section.LIBRARIES,
    check=check,
)
