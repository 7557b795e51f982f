"""A fingerprint of a job's scripts, which outlives the scripts."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.doctor.reading import SOURCES, read_sources
from sagelet_engine.model.job import Job

#: The file's name, beside the compile report.
FILE = "code.sha256"


def of(data: Path, job: Job) -> str:
    """Returns the digest of the scripts that the first host has, or had. Empty if there are none."""
    directories = JobDirectories.of(data, job)
    host = directories.host(job.hosts[0])
    sources = read_sources(host.opt_ml, SOURCES)
    if sources:
        return digest((script.path, script.text) for script in sources)
    with suppress(FileNotFoundError):
        return (directories.report / FILE).read_text(encoding="ascii")
    return ""


def keep(data: Path, job: Job) -> None:
    """Writes the digest of a job's scripts into its report directory. Must run before the scripts are removed."""
    found = of(data, job)
    if found:
        report = JobDirectories.of(data, job).report
        report.mkdir(exist_ok=True)
        (report / FILE).write_text(found, encoding="ascii")


def digest(parts: Iterable[tuple[str, ...]]) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        for text in part:
            hashed.update(text.encode("utf-8", "surrogatepass") + b"\0")
        hashed.update(b"\n")
    return hashed.hexdigest()
