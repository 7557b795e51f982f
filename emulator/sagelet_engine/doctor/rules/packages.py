"""What a script needs and does not find: an installation that failed, a package, a model or a dataset of the hub."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted

#: What pip prints for what there is no distribution of, or none that can be built here.
NOT_FOR_THIS_PYTHON = (
    r"^ERROR: No matching distribution found for ",
    r"^ERROR: Could not find a version that satisfies the requirement ",
    r"^ERROR: Failed building wheel for ",
    r"^ERROR: Failed to build ",
    r"^(?:ERROR|error): (?:subprocess-exited-with-error|metadata-generation-failed)",
)
COLLIDING = (r"^\s+The user requested \(constraint\) ", r"^ERROR: Cannot install ", r"^ERROR: ResolutionImpossible")
INSTALL_FAILED = (*COLLIDING, *NOT_FOR_THIS_PYTHON)
MISSING = re.compile(r"^(?:\[rank\d+\]: ?)?ModuleNotFoundError: No module named '(?P<module>[\w.]+)'")
NOT_IN_THE_HUB = (r"sagelet's hub has ", r" in sagelet's hub has no file ")
#: Names under which pip knows what is imported under another.
_DISTRIBUTIONS = {
    "PIL": "Pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "yaml": "PyYAML",
}  # fmt: skip


def check_installation(case: Case) -> Iterator[Seen]:
    line = last_match(case, INSTALL_FAILED)
    if line is None:
        return
    instead = None
    if last_match(case, COLLIDING):
        instead = (
            "Take the pin that pip names out of requirements.txt, or ask for a version that fits: sagelet keeps torch "
            "and what is built for it (docs/how-to/packages.md). SAGELET_PINS=exact in Environment installs what "
            "requirements.txt says."
        )
    yield Seen(Severity.ERROR, f"pip could not install the job's requirements: {quoted(line)}", instead=instead)


def check_import(case: Case) -> Iterator[Seen]:
    line = last_match(case, (MISSING.pattern,))
    found = MISSING.match(line or "")
    if found is None:
        return
    module = found["module"].partition(".")[0]
    place = failed_at(case)
    text = f"The script imports {found['module']}, which is not installed{case.sources.quoted(place)}"
    instead = (
        f"Put {_DISTRIBUTIONS.get(module, module)} into requirements.txt in the source directory; if {module} is a "
        "module of your own, put it into the source directory. docs/reference/packages.md has what the image holds."
    )
    yield Seen(Severity.ERROR, text, place, instead=instead)


def check_hub(case: Case) -> Iterator[Seen]:
    line = last_match(case, NOT_IN_THE_HUB)
    if line is not None:
        place = failed_at(case)
        yield Seen(Severity.ERROR, f"The script asks for what is not in the hub: {quoted(line)}", place)


INSTALLATION = Rule(
    name="failed-install",
    why="A job's requirements.txt is installed before its script starts, by the Python of the image that runs the job.",
    instead="Ask for a version that has a wheel for this Python; for pins of 2021 to 2023 build the image of their "
    "day: `sagelet image build --variant py39` (docs/how-to/images-of-their-day.md).",
    section=Section.LIBRARIES,
    check=check_installation,
)
IMPORT = Rule(
    name="missing-package",
    why="A script finds what its image holds, what its requirements.txt installs, and its own source directory.",
    instead="Put the package into requirements.txt in the source directory.",
    section=Section.LIBRARIES,
    check=check_import,
)
HUB = Rule(
    name="not-in-the-hub",
    why="Jobs ask sagelet's own hub for models and datasets, so they run without a network; it has what was added.",
    instead="Add it by the command that the message names (docs/how-to/hub.md), or have the job ask the real Hub.",
    section=Section.LIBRARIES,
    check=check_hub,
)
