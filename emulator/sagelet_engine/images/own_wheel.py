"""Makes sagelet's wheel again from its installation, because pip keeps no wheel and no package index has it."""

import base64
import hashlib
import re
from importlib.metadata import Distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

#: What pip writes beside the files of a wheel.
_WRITTEN_BY_PIP = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def repack(installed: Distribution, directory: Path) -> Path:
    """Writes the wheel into the directory and returns its path.

    Scripts are left out: pip makes them from the entry points when it installs the wheel.
    """
    name, version = installed.metadata["Name"], installed.version
    tag = re.search(r"(?m)^Tag: (\S+)$", installed.read_text("WHEEL") or "")
    target = directory / f"{name}-{version}-{tag[1] if tag else 'py3-none-any'}.whl"
    information = f"{name}-{version}.dist-info"
    record = []
    with ZipFile(target, "w", ZIP_DEFLATED) as wheel:
        for file in installed.files or ():
            if ".." in file.parts or "__pycache__" in file.parts:
                continue
            if file.parts[0] == information and file.name in _WRITTEN_BY_PIP:
                continue
            content = file.read_binary()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{file.as_posix()},sha256={digest},{len(content)}\n")
            wheel.writestr(file.as_posix(), content)
        record.append(f"{information}/RECORD,,\n")
        wheel.writestr(f"{information}/RECORD", "".join(record))
    return target
