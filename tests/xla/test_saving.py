"""A script's own `save_pretrained` of a model on XLA: what it writes is what the native job writes."""

from pathlib import Path

import pytest

from support.training_host import TrainingHost

pytestmark = pytest.mark.xla

SCRIPT = """
    import os
    import torch
    from accelerate import Accelerator
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = GPT2Config(n_layer=1, n_embd=16, n_head=2, n_positions=16, vocab_size=50)
    accelerator = Accelerator()
    model = accelerator.prepare(GPT2LMHeadModel(shape))
    print("device=" + next(model.parameters()).device.type)
    accelerator.unwrap_model(model).save_pretrained(
        os.environ["SM_MODEL_DIR"], is_main_process=accelerator.is_main_process, save_function=accelerator.save
    )
    """


def test_a_model_on_xla_is_saved_as_natively(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    saved = {}
    for device, hyperparameters in (("cpu", {}), ("xla", {"sagemaker_training_compiler_enabled": "true"})):
        host = TrainingHost(tmp_path / device, forked=True)
        host.script(SCRIPT)
        ended = host.run(hyperparameters)
        assert ended.code == 0, ended.log
        assert f"device={device}\n" in ended.log
        saved[device] = load_file(host.model / "model.safetensors")
    assert saved["cpu"].keys() == saved["xla"].keys()
    # The head is the embedding, and is written once.
    assert "lm_head.weight" not in saved["xla"]
    assert all(saved["cpu"][name].equal(saved["xla"][name]) for name in saved["cpu"])
