"""A job's fixed cost, taken apart: what a small Trainer job does before its training and after it.

Jobs of each kind take turns: natively and compiled by XLA, each with Python's garbage collector paused during the
imports and without. Beside them the same imports run alone, in a Python without sagelet.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count, pairwise
from pathlib import Path

from bench.tables import Bar, Figure, Row, Scale, Table, in_turns
from sagelet_runtime.base.quiet_imports import VARIABLE
from support.training_host import TrainingHost

STAGES = ("toolkit", "start of Python", "imports", "training", "saving", "end of Python", "toolkit, afterwards")
TRAINING = STAGES.index("training")
KINDS: Mapping[str, bool] = {"native": False, "XLA": True}
#: CI runs jobs of one kind: the stages are the same, and other sections train compiled.
SHORT_KINDS: Mapping[str, bool] = {"native": False}


def _columns(kinds: Iterable[str]) -> tuple[str, ...]:
    return ("stage", *(f"{name}{pause} s" for name in kinds for pause in ("", ", not paused")))


HEADS = (
    _columns(KINDS),
    ("job", "all but the training s", "CPU of the whole job s", "CPU, not paused s", "imports alone s", "promised"),
)
ROUNDS = {Scale.FULL: 6, Scale.SHORT: 1}
#: The goal: this share of the imports' own time, and seconds for the rest.
SHARE, REST_S = 0.6, 2.0
IMPORTS = "import torch\nfrom transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments\n"
XLA_IMPORTS = "import torch_xla.core.xla_model, torch_xla.distributed.parallel_loader\n"
SCRIPT = (
    """
import os
import time

def mark(name, at=None):
    print(f"mark {name} {at or time.time():.6f}", flush=True)

mark("line")
with open("/proc/self/stat") as file:
    ticks = int(file.read().rpartition(")")[2].split()[19])
alive = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
mark("python", time.time() - alive)
"""
    + IMPORTS
    + """
if os.environ.get("PJRT_DEVICE"):
    """
    + XLA_IMPORTS
    + """
mark("imported")
torch.manual_seed(0)
size = {"n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 16, "vocab_size": 50}
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 50, (40, 16))]
arguments = TrainingArguments(
    output_dir=os.environ["SM_OUTPUT_DATA_DIR"], max_steps=5, save_strategy="no", report_to=[], disable_tqdm=True
)
trainer = Trainer(model=GPT2LMHeadModel(GPT2Config(**size)), args=arguments, train_dataset=rows)
trainer.train()
mark("trained")
trainer.save_model(os.environ["SM_MODEL_DIR"])
mark("saved")
"""
)
#: AWS's toolkit prints this when the script's process has ended.
ENDED = re.compile(r"^([-\d]+ [:\d]+,\d+) sagemaker-training-toolkit INFO +Reporting training SUCCESS", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    #: Seconds, in the order of STAGES.
    stages: tuple[float, ...]
    #: Seconds of all processes of the job.
    cpu: float

    @property
    def fixed(self) -> float:
        return sum(self.stages) - self.stages[TRAINING]


class Job:
    """Runs one kind of job again and again."""

    def __init__(self, base: Path, *, compiled: bool, paused: bool) -> None:
        self._base, self._compiled = base, compiled
        self._environment = {"SAGELET_XLA_CLIENT": "builtin", VARIABLE: "1" if paused else "0"}
        self._numbers = count()

    def __call__(self) -> Run:
        host = TrainingHost(self._base / str(next(self._numbers)), dict(self._environment))
        host.script(SCRIPT)
        used, began = os.times(), time.time()
        ended = host.run({"sagemaker_training_compiler_enabled": "true"} if self._compiled else {})
        finished, now = time.time(), os.times()
        if ended.code:
            raise SystemExit(ended.log)
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        return Run(tuple(two - one for one, two in pairwise(_moments(ended.log, began, finished))), cpu)


def _moments(log: str, began: float, finished: float) -> list[float]:
    """Returns where the stages begin, and the end of the last one, in seconds since the epoch."""
    marks = {name: float(at) for name, at in re.findall(r"^mark (\w+) ([\d.]+)$", log, re.MULTILINE)}
    (ended,) = ENDED.findall(log)
    script = datetime.strptime(ended, "%Y-%m-%d %H:%M:%S,%f").timestamp()
    return [began, *(marks[name] for name in ("python", "line", "imported", "trained", "saved")), script, finished]


def _alone(compiled: bool) -> float:
    """Returns the seconds of the imports in a Python of their own."""
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "USE_TORCH_XLA": "1" if compiled else "0"}
    program = f"import time\nbegan = time.time()\n{IMPORTS}{XLA_IMPORTS if compiled else ''}print(time.time() - began)"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def run(scale: Scale, directory: Path) -> list[Table]:
    rounds, kinds = ROUNDS[scale], KINDS if scale is Scale.FULL else SHORT_KINDS
    jobs = {
        (name, paused): Job(directory / f"{name}-{paused}", compiled=compiled, paused=paused)
        for name, compiled in kinds.items()
        for paused in (True, False)
    }
    if scale is Scale.FULL:
        in_turns(1, jobs)  # fills the caches of files
    found = in_turns(rounds, jobs)
    alone = in_turns(rounds, {name: lambda compiled=compiled: _alone(compiled) for name, compiled in kinds.items()})
    conditions = (
        f"A job of Transformers' Trainer with 5 steps of a small GPT-2, as a process; {rounds} jobs of each kind in "
        "turn. Median, least and most. Not paused: with SAGELET_QUIET_IMPORTS=0."
    )
    done = sum(map(len, found.values()))
    counts = {"jobs": (done, rounds * len(jobs))}
    return [
        Table("A job's stages", _columns(kinds), _stages(found), conditions, counts),
        Table(
            "The fixed cost",
            HEADS[1],
            [_fixed(name, found, alone[name]) for name in kinds],
            f"The goal is {SHARE:g} of the time of the imports alone, and {REST_S:g} s.",
        ),
    ]


def _stages(found: Mapping[tuple[str, bool], list[Run]]) -> list[Row]:
    return [
        (stage, *(Figure.of([one.stages[place] for one in runs]) for runs in found.values()))
        for place, stage in enumerate(STAGES)
    ]


def _fixed(name: str, found: Mapping[tuple[str, bool], list[Run]], alone: list[float]) -> Row:
    paused, plain = (found[name, one] for one in (True, False))
    fixed, imports = Figure.of([one.fixed for one in paused]), Figure.of(alone)
    goal = SHARE * imports.value + REST_S
    cpu = [Figure.of([one.cpu for one in runs]) for runs in (paused, plain)]
    return (name, fixed, *cpu, imports, Bar("all but the training s", fixed, goal, at_most=True))
