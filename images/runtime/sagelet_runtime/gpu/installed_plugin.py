"""`python -m sagelet_runtime.gpu.installed_plugin` prints which CUDA plugin a job of this Python would use, as JSON.

`sagelet doctor` asks in a process of its own, because it loads the plugin. The build of a GPU variant of the image asks
with `--check`, which exits 1 if the plugin cannot be used.
"""

import json
import sys

from sagelet_runtime.base import installed
from sagelet_runtime.gpu import pjrt_api
from sagelet_runtime.gpu import plugin as gpu

#: Both install the directory nvidia/cudnn, and a process can load one libcudnn.so.9 only.
CUDNN = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")


def facts() -> dict[str, str]:
    """Returns `{"plugin": "jax-cuda13-pjrt 0.12.0", "api": "0.116", "problem": ""}`.

    `plugin` is empty if none is installed. `problem` says why the plugin cannot be used.
    """
    try:
        found = gpu.find_plugin(installed.version("torch_xla") or "none")
    except gpu.PluginUnavailable as error:
        return {"plugin": "", "api": "", "problem": str(error)}
    try:
        api = pjrt_api.version(found.path)
    except pjrt_api.NoPlugin as error:
        return {"plugin": found.name, "api": "", "problem": str(error)}
    return {"plugin": found.name, "api": str(api), "problem": found.refusal(api) or _two_cudnns()}


def _two_cudnns() -> str:
    if not all(installed.version(name) for name in CUDNN):
        return ""
    return (
        f"{' and '.join(CUDNN)} are both installed, into one directory: use a torch and a plugin of the same CUDA "
        "(torch 2.9.0 of https://download.pytorch.org/whl/cu130 for jax-cuda13-pjrt)"
    )


def main() -> None:
    told = facts()
    print(json.dumps(told))
    if "--check" in sys.argv and told["problem"]:
        sys.exit(told["problem"])


if __name__ == "__main__":
    main()
