"""`datasets` of today, and transformers of 2021 (`hub_datasets.py DIRECTORY`), with the hub of HF_ENDPOINT."""

import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO

# As in a job.
sys.path[:0] = sys.argv[1:2]
sys.path.append(os.environ["HOOK"])
from sagelet_runtime.hugging_face import hub  # noqa: E402 - found by the lines above

hub.activate()

if len(sys.argv) > 1:
    from transformers import AutoConfig, GPT2Tokenizer
    from transformers.file_utils import cached_path, hf_bucket_url

    answer = {
        "layers": AutoConfig.from_pretrained("gpt2").n_layer,
        "tokens": GPT2Tokenizer.from_pretrained("gpt2").tokenize("hello the world"),
        "weights": os.path.getsize(cached_path(hf_bucket_url("gpt2", "pytorch_model.bin"))),
    }
    try:
        AutoConfig.from_pretrained("org/none")
    except OSError as error:
        answer["miss"] = str(error.__cause__ or error.__context__ or error)
else:
    from datasets import get_dataset_config_names, load_dataset

    loaded = load_dataset("nyu-mll/glue", "sst2")
    stream = load_dataset("nyu-mll/glue", "sst2", split="train", streaming=True)
    answer = {
        "rows": loaded.num_rows,
        "first": loaded["train"][0],
        "streamed": next(iter(stream)),
        "configurations": get_dataset_config_names("nyu-mll/glue"),
    }
    with redirect_stdout(StringIO()) as log:
        try:
            load_dataset("org/none")
        except FileNotFoundError as error:
            answer["miss"] = type(error).__name__
    answer["log"] = log.getvalue().splitlines()
print("ANSWER " + json.dumps(answer))
