"""A client of the Hub, of whatever year: `hub_client.py [DIRECTORY]`, of which huggingface_hub and transformers come.

The oldest are brought to the hub as in a job: HOOK is where sagelet's hooks are.
"""

import json
import os
import sys
from collections.abc import Callable


def main() -> None:
    sys.path[:0] = sys.argv[1:]
    if "HOOK" in os.environ:
        sys.path.append(os.environ["HOOK"])
        from sagelet_runtime.hugging_face import hub

        hub.activate()
    import huggingface_hub
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download

    api = HfApi()
    files = sorted(os.listdir(snapshot_download("gpt2")))
    weights = hf_hub_download("openai-community/gpt2", "pytorch_model.bin")
    found = {
        "version": huggingface_hub.__version__,
        "files": [name for name in files if not name.startswith(".")],
        "weights": os.path.getsize(weights),
        "again": hf_hub_download("openai-community/gpt2", "pytorch_model.bin") == weights,
        "listed": sorted(api.list_repo_files("gpt2")),
        "sha": api.model_info("gpt2").sha,
        "misses": [told(lambda: hf_hub_download("org/none", "a")), told(lambda: api.model_info("org/none"))],
    }
    print("ANSWER " + json.dumps(found))


def told(ask: Callable[[], object]) -> str:
    try:
        ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


main()
