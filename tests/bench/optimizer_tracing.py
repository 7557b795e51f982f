"""Compares the time in which AdamW's step is traced, with torch's shape checks and with sagelet's (in_place.py).

    python tests/bench/optimizer_tracing.py [PAIRS]

The model has 148 tensors, as GPT-2 124M has, and is small: only Python's time counts, before the device gets the step.
The two kinds take turns, each measurement in a process of its own. The last line has the medians and their ranges.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

from sagelet_engine.images.context import find_root

LAYERS, WIDTH, STEPS, FIRST = 74, 32, 25, 5


def main(pairs: int) -> None:
    times: dict[str, list[float]] = {"torch": [], "sagelet": []}
    weights = set()
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime")}
    for _ in range(pairs):
        for kind in times:
            command = [sys.executable, __file__, "--one", kind]
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            times[kind].append(found["ms"])
            weights.add(found["weights"])
    shown = {kind: [statistics.median(values), min(values), max(values)] for kind, values in times.items()}
    ratio = shown["sagelet"][0] / shown["torch"][0]
    print(json.dumps({"ms": shown, "ratio": round(ratio, 2), "same_weights": len(weights) == 1}))


def one(kind: str) -> None:
    import torch
    import torch_xla

    from sagelet_runtime.torch_xla import in_place

    if kind == "sagelet":
        in_place.install(torch_xla)
    device = torch_xla.device()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(8, WIDTH).to(device)
    times = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        begun = time.perf_counter()
        optimizer.step()
        times.append(time.perf_counter() - begun)
        torch_xla.sync()
    weights = torch.cat([parameter.detach().cpu().flatten() for parameter in model.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
    print(json.dumps({"ms": round(statistics.median(times[FIRST:]) * 1e3, 1), "weights": digest}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 7)
