"""A Python environment for a test's server, so that hostile jobs do no harm, and tiny wheels."""

import base64
import hashlib
import io
import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

#: A package that every such environment has, in version 1.0. `WORD` of its module is its version.
PROBE = "sagelet-base-probe"


def module_of(name: str) -> str:
    return name.replace("-", "_")


def wheel_name(name: str, version: str = "1.0") -> str:
    return f"{module_of(name)}-{version}-py3-none-any.whl"


def wheel(name: str, version: str = "1.0", *, script: str = "", requires: str = "") -> bytes:
    """Makes a wheel of a module with WORD, the version, and main(), which prints it. `script`: a command for main()."""
    module, info = module_of(name), f"{module_of(name)}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{module}.py": f"WORD = {version!r}\n\n\ndef main():\n    print('{module} says', WORD)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {module}:main\n"
    files[f"{info}/RECORD"] = _record(files, info)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            # A fixed time, so that the bytes are always the same.
            archive.writestr(zipfile.ZipInfo(path), text)
    return content.getvalue()


def _record(files: dict[str, str], info: str) -> str:
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    return "\n".join([*lines, f"{info}/RECORD,,\n"])


class OwnPython:
    """A virtual environment with PROBE and the packages of the tests' own, and a home beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "venv"
        self.home = root / "home"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.root)], check=True)
        self.python = self.root / "bin" / "python"
        self.sagelet = self.root / "bin" / "sagelet"
        ours = Path(sys.executable).with_name("sagelet").read_text().partition("\n")[2]
        self.sagelet.write_text(f"#!{self.python}\n{ours}")
        self.sagelet.chmod(0o755)
        added = "".join(f"; site.addsitedir({directory!r})" for directory in sites())
        (self.site / "of-the-tests.pth").write_text(f"import site{added}\n")
        with zipfile.ZipFile(io.BytesIO(wheel(PROBE))) as archive:
            archive.extractall(self.site)

    @property
    def site(self) -> Path:
        (found,) = self.root.glob("lib/python*/site-packages")
        return found

    def content(self) -> dict[str, str]:
        """Returns digests of all files of the environment and of the home's .local, except Python's caches."""
        found = {}
        for root in (self.root, self.home / ".local"):
            for path in sorted(root.rglob("*")):
                if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def environment(self) -> dict[str, str]:
        """Returns the variables of a server that runs in it."""
        return {"HOME": str(self.home), "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def sites() -> list[str]:
    return [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
