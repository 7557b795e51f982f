"""Steps of one process on a whole batch against two workers on half of it each, on this machine's CPUs.

    python tests/bench/world.py            # from the root of the checkout; prints milliseconds a step

Threads are divided among the workers. Figures of a busy machine say nothing.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BATCH, WARM, STEPS = 8, 3, 20


def train() -> None:
    """One worker."""
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    from transformers import GPT2Config, GPT2LMHeadModel

    from sagelet_runtime.world import counters

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=256, n_head=4, n_positions=128, vocab_size=5000, use_cache=False)
    model = GPT2LMHeadModel(config).to(torch_xla.device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows = torch.randint(0, 5000, (BATCH // xm.xrt_world_size(), 128))
    seconds = []
    for step in range(WARM + STEPS):
        if step == WARM:
            before = counters.figures()
        begin = time.perf_counter()
        batch = rows.to(torch_xla.device())
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync(wait=True)
        seconds.append(time.perf_counter() - begin)
    after = counters.figures()
    found = {
        "step_ms": 1e3 * statistics.median(seconds[WARM:]),
        "collective_ms": 1e3 * (after.seconds - before.seconds) / STEPS,
        "collective_mb": (after.bytes - before.bytes) / STEPS / 1e6,
    }
    (Path(os.environ["RESULTS"]) / f"rank-{xm.get_ordinal()}.json").write_text(json.dumps(found))


def main() -> None:
    sys.path[:0] = [str(ROOT / "tests")]
    from support.xla_workers import results, run_workers

    for workers, threads in ((1, os.cpu_count() or 1), (2, max(1, (os.cpu_count() or 1) // 2))):
        with tempfile.TemporaryDirectory() as directory:
            extra = {"OMP_NUM_THREADS": str(threads), "PJRT_NPROC": str(threads), "XLA_FLAGS": ""}
            run_workers(workers, [__file__, "train"], Path(directory), extra)
            for rank, found in enumerate(results(Path(directory), workers)):
                figures = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
                print(f"{workers} worker(s), {threads} thread(s) each, rank {rank}: {figures}")


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else main()
