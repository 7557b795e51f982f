"""The script of a job of cache_jobs.py: a worker whose torch_xla is a loop over programs."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import pjrt_driver

from sagelet_runtime.gpu import compile_cache
from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import DIRECTORY, Writer

parser = argparse.ArgumentParser()
parser.add_argument("--programs", type=json.loads, required=True)
parser.add_argument("--kib", type=int, required=True)
parser.add_argument("--fail", type=int, default=0)
args = parser.parse_args()

plugin = gpu.Plugin(gpu.ROUTES["2.8"], str(Path("plugin.so").resolve()), "jax-cuda12-pjrt")
os.environ |= plugin.environment(os.environ)
front = os.environ.get(gpu.FRONT)
if front is None:
    # Without a cache, torch_xla uses the plugin directly. Here the library in front of it only counts.
    from sagelet_runtime.gpu import pjrt_front

    front = str(pjrt_front.library())
recorder = Recorder(time.time_ns() // 1_000_000)
began = time.perf_counter()
done = pjrt_driver.compile_all(front, [f"{program} ".ljust(args.kib * 1024, "x") for program in args.programs])
seconds = time.perf_counter() - began


def document() -> dict[str, Any]:
    counted = {"compiles": len(args.programs), "compile_seconds": seconds, "cache": compile_cache.figures()}
    return {"compiled": True, "platform": os.environ["PJRT_DEVICE"], **recorder.document(), **counted}


Writer(Path(os.environ[DIRECTORY]), recorder, document).write(finished=True)
made = [text.split()[:2] for text in done.pop("made")]
print("COMPILED " + json.dumps({**done, "made": made, "seconds": seconds}), flush=True)
if args.fail:
    raise SystemExit("asked to fail")
