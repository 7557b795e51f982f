"""torch.utils.checkpoint on XLA: a layer that runs again in the backward pass has the same dropout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.images.context import find_root

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).parent / "programs" / "checkpoints.py"


def test_gradient_checkpoints_train_the_same_model() -> None:
    runtime = find_root() / "runtime"
    environ = {
        **os.environ, "PJRT_DEVICE": "CPU", "SM_TRAINING_COMPILER_CONFIGURED": "1",
        "PYTHONPATH": f"{runtime}/sagelet_runtime/startup:{runtime}",
    }  # fmt: skip
    done = subprocess.run([sys.executable, PROGRAM], env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (plain, compiled), *ways = json.loads(done.stdout.splitlines()[-1])
    assert plain[-1] < plain[0]
    for losses, compilations in ways:
        assert losses == pytest.approx(plain, rel=1e-5)
        assert compilations <= compiled, "no step is compiled anew"
