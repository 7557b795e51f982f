"""Uses torch on the CPU, then trains on XLA. Prints what each first use led to as JSON: the losses, or the error.

Each first use has a process of its own, a fork of this one, which has imported torch and torch_xla but has no client.
"""

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from sagelet_runtime.base.import_hook import after
from sagelet_runtime.torch_xla import first_backward

if "--bare" not in sys.argv:
    after(first_backward.MODULE, first_backward.install)
import torch
import torch_xla
from torch import Tensor, nn
from torch.utils import checkpoint
from torch.utils.data import DataLoader, Dataset

#: Seconds after which a process that hangs ends.
DEADLINE = 120


class Rows(Dataset[Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, at: int) -> Tensor:
        return torch.full((4,), float(at))


class Gradients(Rows):
    """Rows that a backward pass in the loader's worker makes."""

    def __getitem__(self, at: int) -> Tensor:
        x = torch.full((4,), float(at), requires_grad=True)
        x.square().sum().backward()
        assert x.grad is not None
        return x.grad


def backward() -> None:
    nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()


def optimizer() -> None:
    model = nn.Linear(4, 4)
    steps = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    steps.step()


def fork(work: Callable[[], Any]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def pool() -> None:
    with multiprocessing.get_context("fork").Pool(2) as workers:
        assert workers.map(abs, [-1, 2]) == [1, 2]


def thread() -> None:
    beside = threading.Thread(target=backward)
    beside.start()
    beside.join()


def compiled(backend: str) -> None:
    torch.compile(nn.Linear(4, 4), backend=backend)(torch.ones(2, 4)).sum().backward()


def compiled_autograd() -> None:
    import torch._dynamo

    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled("aot_eager")


def autocast(device: str, work: Callable[[], Any]) -> None:
    with torch.autocast(device, dtype=torch.bfloat16):
        work()


def load(data: Dataset[Tensor], **settings: Any) -> Any:
    loader = DataLoader(data, 2, num_workers=2, **settings)
    for batch in loader:
        batch.sum()
    return loader


def leaf() -> Tensor:
    return torch.ones(2, requires_grad=True)


def second_derivative() -> None:
    x = leaf()
    (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    first.sum().backward()


def meta() -> None:
    with torch.device("meta"):
        nn.Linear(4, 4)


FIRST: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "backward": backward,
    "optimizer": optimizer,
    "autograd.grad": lambda: torch.autograd.grad((x := leaf()).sum(), x),
    "second derivative": second_derivative,
    "func.grad": lambda: torch.func.grad(lambda x: x.square().sum())(torch.ones(3)),
    "jacobian": lambda: torch.autograd.functional.jacobian(lambda x: x * 2, torch.ones(2)),
    "checkpoint": lambda: checkpoint.checkpoint(nn.Linear(2, 2), leaf(), use_reentrant=True).sum().backward(),
    "script": lambda: torch.jit.script(nn.Linear(4, 4))(torch.ones(2, 4)).sum().backward(),
    "thread": thread,
    "fork": lambda: fork(lambda: torch.ones(2).sum()),
    "backward in a fork": lambda: fork(backward),
    "backward, also in a fork": lambda: (backward(), fork(backward)),
    "pool": pool,
    "compile, eager": lambda: compiled("eager"),
    "compile, aot_eager": lambda: compiled("aot_eager"),
    "compiled autograd": compiled_autograd,
    "autocast": lambda: autocast("cpu", lambda: nn.Linear(4, 4)(torch.ones(2, 4))),
    "autocast, backward": lambda: autocast("cpu", backward),
    "autocast of XLA": lambda: autocast("xla", lambda: nn.Linear(4, 4)(torch.ones(2, 4))),
    "loader": lambda: load(Rows()),
    "loader, pinned": lambda: load(Rows(), pin_memory=True),
    "loader, kept": lambda: load(Rows(), persistent_workers=True),
    "loader, backward": lambda: load(Gradients()),
    "scaler": lambda: (torch.amp.GradScaler("cpu"), torch.amp.GradScaler("xla")),
    "seeds": lambda: (torch.manual_seed(3), torch.cuda.manual_seed_all(2), torch.cuda.is_available()),
    "default device": lambda: torch.set_default_device("cpu"),
    "meta": meta,
}


def trained() -> list[float]:
    """Trains on XLA with dropout, autocast, a loader's workers, and forks and backward passes on the CPU between."""
    torch.manual_seed(7)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(device)
    steps = torch.optim.AdamW(model.parameters())
    losses = []
    for batch in DataLoader(Rows(), 2, num_workers=2):
        steps.zero_grad()
        with torch.autocast("xla", dtype=torch.bfloat16):
            loss = model(batch.to(device)).float().square().mean()
        loss.backward()
        steps.step()
        torch_xla.sync()
        losses.append(loss.item())
        backward()
        fork(lambda: torch.ones(2).sum())
    return losses


def outcome(first: Callable[[], Any]) -> Any:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE)
        os.close(ours)
        try:
            # A loader with workers must live on.
            _kept = first()
            told: Any = trained()
        except Exception as error:
            traceback.print_exc()
            told = f"{type(error).__name__}: {error}"
        os.write(theirs, json.dumps(told).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(text) if code == 0 else f"ended with {code}"


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word in FIRST] or FIRST
    print(json.dumps({name: outcome(FIRST[name]) for name in names}))
