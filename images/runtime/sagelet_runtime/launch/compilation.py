"""Writes down whether a job that asks to be compiled is, in a file that sagelet's engine reads while the job runs."""

import json
import os
from pathlib import Path

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.gpu.device import DeviceChoice

#: The file's path from the parent of /opt/ml/output/data.
FILE = "sagelet/compilation.json"


def write(output_data_dir: str, host: str, choice: DeviceChoice) -> Path:
    """Writes `{"version": 1, "host": "algo-1", "compiled": false, "platform": "CUDA", "reason": "..."}` atomically.

    `platform` is what the job is compiled for, or would have been compiled for.
    """
    file = Path(output_data_dir).parent / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    content: JsonObject = {
        "version": 1,
        "host": host,
        "compiled": choice.compiled,
        "platform": choice.kind,
        "reason": choice.reason,
    }
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content))
    draft.replace(file)
    return file
