"""Dynamo, Inductor and torch_xla's export stay out of a job that does not use them, and work in one that does."""

import json
import re
from typing import Any

import pytest

from support.training_host import Ended, TrainingHost

pytestmark = pytest.mark.xla

SCRIPT = """
    import json, sys
    import torch
    import torch_xla

    HEAVY = {"torch._dynamo.eval_frame", "torch._inductor", "torch_xla._dynamo.dynamo_bridge", "networkx"}

    def say(name, value):
        print(name + "=" + json.dumps(value))

    def loaded():
        return sorted(HEAVY & set(sys.modules))

    torch.manual_seed(3)
    device = torch_xla.device()
    model = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def train(model):
        optimizer.zero_grad()
        loss = model(x.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()
        return loss.item()

    losses = [train(model)]
    from transformers import Trainer
    say("trained", loaded())
    settings = torch._dynamo.config
    say("settings", [settings.automatic_dynamic_shapes, settings.specialize_float])
    say("configured", loaded())

    before = model.weight.detach().cpu()
    compiled = torch.compile(model, backend="openxla")
    expected = torch.nn.functional.linear(x, before, model.bias.detach().cpu())
    say("compiled", [compiled(x.to(device)).tolist(), expected.tolist()])
    say("kept", [settings is torch._dynamo.config, settings.automatic_dynamic_shapes, settings.specialize_float])
    say("is compiled", [isinstance(one, torch._dynamo.eval_frame.OptimizedModule) for one in (compiled, model)])
    say("losses", losses + [train(compiled), train(model)])
    # Functions that torch had hidden before Dynamo was there are hidden from it now.
    say("hidden", hasattr(vars(torch.optim.Optimizer.zero_grad)["__wrapped__"], "__dynamo_disable"))

    gru = torch.nn.GRU(3, 4).to(device)
    gru(torch.randn(5, 2, 3, device=device))[0].sum().backward()
    torch_xla.sync()
    say("gru", bool(gru.weight_ih_l0.grad.abs().sum() > 0))

    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    from torch_xla.stablehlo import exported_program_to_stablehlo
    say("export", "stablehlo.dot" in exported_program_to_stablehlo(exported).get_stablehlo_text())
    """


def value(ended: Ended, name: str) -> Any:
    """What the script printed as `name=JSON`."""
    (found,) = re.findall(rf"^{name}=(.+)$", ended.log, re.MULTILINE)
    return json.loads(found)


def test_what_a_job_does_not_use_is_not_loaded_and_what_it_uses_works(host: TrainingHost) -> None:
    host.script(SCRIPT)
    ended = host.run({"sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    assert value(ended, "trained") == []
    assert value(ended, "settings") == [False, True]
    assert value(ended, "configured") == []
    compiled, eager = value(ended, "compiled")
    assert [pytest.approx(row, abs=1e-5) for row in eager] == compiled
    assert value(ended, "kept") == [True, False, True]
    assert value(ended, "is compiled") == [True, False]
    losses = value(ended, "losses")
    assert losses == sorted(losses, reverse=True)
    assert value(ended, "hidden")
    assert value(ended, "gru")
    assert value(ended, "export")
