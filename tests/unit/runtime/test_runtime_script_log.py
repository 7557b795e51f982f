"""The script configures the log, not torch_xla. Tested with a stand-in for torch_xla, in processes of jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.training_host import RUNTIME

STARTUP = RUNTIME / "sagelet_runtime" / "startup"
#: As torch_xla does: at import, and at a rendezvous.
TORCH_XLA = """
    import logging
    logging.basicConfig()
    logging.warning("at import")

    def rendezvous():
        logging.info("Joining rendezvous")
    """


def printed(directory: Path, script: str, name: str = "torch_xla") -> list[str]:
    """What a script prints in a native job. `name`: of the library."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.py").write_text("\n".join(line[4:] for line in TORCH_XLA.splitlines()))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SAGELET", "SM_", "PYTHON"))}
    environment |= {"PYTHONPATH": f"{STARTUP}{os.pathsep}{directory}", "SAGELET_REPORT_DIR": str(directory)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr.splitlines()


def test_the_script_configures_its_log_after_the_import(tmp_path: Path) -> None:
    script = """
import logging, torch_xla
logging.basicConfig(format="%(levelname)s|%(message)s", level=logging.INFO)
logging.getLogger("mine").info("hello")
"""
    assert printed(tmp_path, script) == ["at import", "INFO|hello"]


def test_the_script_configures_its_log_after_a_call(tmp_path: Path) -> None:
    script = """
import logging, torch_xla
torch_xla.rendezvous()
logging.basicConfig(format="%(levelname)s|%(message)s", level=logging.INFO)
torch_xla.rendezvous()
"""
    assert printed(tmp_path, script) == ["at import", "INFO|Joining rendezvous"]


def test_a_handler_of_the_script_s_own_prints_once(tmp_path: Path) -> None:
    script = """
import logging, sys, torch_xla
logger = logging.getLogger("mine")
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stderr))
logger.info("once")
"""
    assert printed(tmp_path, script) == ["at import", "once"]


@pytest.mark.parametrize(
    "call", ["logging.warning('hello')", "logging.basicConfig(); logging.getLogger().warning('hello')"]
)
def test_the_script_s_own_call_counts(tmp_path: Path, call: str) -> None:
    assert printed(tmp_path, f"import logging, torch_xla\n{call}") == ["at import", "WARNING:root:hello"]


def test_another_library_s_call_is_its_own_affair(tmp_path: Path) -> None:
    """On AWS it configures the log, too."""
    script = "import logging, old_library; logging.basicConfig(format='%(message)s'); logging.warning('hello')"
    assert printed(tmp_path, script, "old_library") == ["WARNING:root:at import", "WARNING:root:hello"]
