"""A compiled job does not import what it does not use, and what it uses is what torch_xla has without sagelet."""

import json
import textwrap

import pytest

from support.training_host import TrainingHost

pytestmark = pytest.mark.xla

ASKED = {"sagemaker_training_compiler_enabled": "true"}
HEAVY = ["torch._inductor.fx_passes.post_grad", "torch._functorch.aot_autograd", "scipy.optimize", "sklearn.metrics"]
#: A Trainer's imports, then what is left of HEAVY.
IMPORTS = f"""
    import json, sys
    import torch_xla.core.xla_model as xm
    from transformers import GPT2LMHeadModel, Trainer
    print("loaded=" + json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
    """
#: A GRU whose sequence is long enough for scan, the export to StableHLO, a model through the backend `openxla`, and a
#: matching by SciPy.
USES = """
    import json
    import torch
    import torch_xla
    from torch_xla.experimental.gru import GRU
    from transformers.loss.loss_for_object_detection import HungarianMatcher

    torch.manual_seed(3)
    device = torch_xla.device()
    gru = GRU(4, 6).to(device)
    out, _ = gru(torch.randn(65, 2, 4, device=device))
    out.sum().backward()
    found = {"gru": [out.sum().item(), gru.weight_ih_l0.grad.sum().item()]}
    line = torch.nn.Linear(3, 2)
    with torch.no_grad():
        exported = torch.export.export(line, (torch.ones(1, 3),))
    text = torch_xla.stablehlo.exported_program_to_stablehlo(exported).get_stablehlo_text()
    found["stablehlo"] = "dot_general" in text or "dot" in text
    model = torch.nn.Linear(3, 2).to(device).eval()
    with torch.no_grad():
        traced = torch.compile(model, backend="openxla")
        found["openxla"] = traced(torch.ones(1, 3, device=device)).sum().item()
    found["bridge"] = torch_xla._dynamo.dynamo_bridge.__name__
    logits = {"logits": torch.randn(1, 4, 3), "pred_boxes": torch.rand(1, 4, 4)}
    target = [{"class_labels": torch.tensor([1, 2]), "boxes": torch.rand(2, 4)}]
    found["matched"] = [[part.tolist() for part in pair] for pair in HungarianMatcher()(logits, target)]
    print("found=" + json.dumps(found))
    """


def said(host: TrainingHost, text: str, name: str, **variables: str) -> object:
    host.environment |= variables
    host.script(textwrap.dedent(text))
    ended = host.run(ASKED)
    assert ended.code == 0, ended.log
    (line,) = [line for line in ended.log.splitlines() if line.startswith(f"{name}=")]
    return json.loads(line.partition("=")[2])


def test_a_trainers_imports_leave_out_what_it_does_not_use(host: TrainingHost) -> None:
    assert said(host, IMPORTS, "loaded") == []


def test_what_is_deferred_gives_the_same_results(host: TrainingHost) -> None:
    deferred = said(host, USES, "found")
    # The script begins without the finder.
    plain = "import sys\nsys.meta_path[:] = [one for one in sys.meta_path if 'deferred' not in type(one).__module__]\n"
    assert said(host, plain + textwrap.dedent(USES), "found") == deferred
