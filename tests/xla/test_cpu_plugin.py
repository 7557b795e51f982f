"""A compiled job on XLA's CPU plugin: trains as on the built-in client, and compiles each program once."""

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from sagelet_engine.compile_cache import host_copies
from sagelet_runtime.gpu import device, plugin
from support.jobs import Jobs
from support.server import ACCOUNT, COMPILED, SageletProcess
from support.training_host import RUNTIME, TrainingHost

pytestmark = [pytest.mark.xla, pytest.mark.cpu_plugin]

SCRIPT = """
    import torch
    import torch_xla.core.xla_model as xm
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    device = xm.xla_device()
    sizes = dict(n_layer=2, n_embd=64, n_head=2, vocab_size=300, n_positions=32)
    model = GPT2LMHeadModel(GPT2Config(**sizes, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, losses = torch.randint(0, 300, (4, 32)).to(device), []
    for _ in range(6):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.mark_step()
        losses.append(loss.item())
    print("losses=" + str(losses))
    print("hardware=" + xm.xla_device_hw(device))
    """


def train(
    base: Path, client: str, cache: Path, script: str = SCRIPT, *, forked: bool = False, **variables: str
) -> tuple[list[float], dict[str, Any], str]:
    """Runs a job in a directory of its own. Returns its losses, what its cache did, and its log."""
    host = TrainingHost(base, instance_type="ml.m5.large", forked=forked)
    host.environment = {"SAGELET_XLA_CLIENT": client, "SAGELET_COMPILE_CACHE": str(cache), **variables}
    host.script(script)
    ended = host.run({"sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    assert "hardware=CPU" in ended.log
    assert "Profiler API not found" not in ended.log
    (losses,) = re.findall(r"^losses=(.+)$", ended.log, re.MULTILINE)
    reports = [json.loads(file.read_text()) for file in (base / "output/sagelet").glob("*.json")]
    (told,) = [one["cache"] for one in reports if "cache" in one]
    return json.loads(losses), told, ended.log


def test_the_plugin_trains_as_the_built_in_client_and_compiles_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    own, off, _ = train(tmp_path / "builtin", "builtin", cache, forked=True)
    assert (off["enabled"], list(cache.iterdir())) == (False, [])
    cold, first, log = train(tmp_path / "cold", "plugin", cache)
    named = f"lammps-jax-pjrt-cpu {metadata.version('lammps-jax-pjrt-cpu')} (PJRT C API 0.115)"
    assert f"PJRT_DEVICE=CPU_PLUGIN: this host has no GPU; XLA's client is {named}, which passed its trial\n" in log
    assert cold == pytest.approx(own, rel=1e-5)
    assert (first["enabled"], first["hits"]) == (True, 0)
    assert first["misses"] > 0
    warm, second, log = train(tmp_path / "warm", "plugin", cache)
    assert re.search(r"which passed its trial on \d{4}-\d\d-\d\d at \d\d:\d\d UTC\n", log), "not tried again"
    assert warm == cold
    assert (second["hits"], second["misses"]) == (first["misses"], 0)
    _, changed, log = train(tmp_path / "flags", "plugin", cache, XLA_FLAGS="--xla_cpu_prefer_vector_width=128")
    assert changed["hits"] == 0
    assert "which passed its trial\n" in log, "tried with these flags"


def test_jobs_of_a_server_share_the_cache(tmp_path: Path) -> None:
    server = SageletProcess(tmp_path / "data", "--runtime", "process").start()
    try:
        jobs = Jobs(server)
        (cold, tried), (warm, kept) = (_cache_of_a_job(jobs) for _ in range(2))
    finally:
        server.stop()
    assert (" its trial on 20" in tried, " its trial on 20" in kept) == (False, True), "the verdict is kept as well"
    assert (cold["hits"], warm["misses"]) == (0, 0)
    assert warm["hits"] == cold["misses"] > 0


def _cache_of_a_job(jobs: Jobs) -> tuple[dict[str, Any], str]:
    """Returns what the cache did for a job, and the job's log."""
    hyperparameters = {"sagemaker_training_compiler_enabled": '"true"'}
    environment = {"SAGELET_XLA_CLIENT": "plugin"}
    name = jobs.submit(SCRIPT, image=COMPILED, hyperparameters=hyperparameters, Environment=environment)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed", jobs.log(name)
    url = f"{jobs.server.endpoint}/_sagelet/jobs/{name}/compiler-report?account={ACCOUNT}&region=us-east-1"
    report: dict[str, Any] = json.loads(urlopen(url).read())
    return dict(report["total"]["cache"]), "\n".join(jobs.log(name))


def test_a_script_that_chooses_the_cpu_itself_gets_the_plugin(tmp_path: Path) -> None:
    """Scripts of PyTorch/XLA's own pages do. PJRT_DEVICE=CPU in the job's Environment means the same."""
    cache = tmp_path / "cache"
    cache.mkdir()
    before = '\n    import os\n    os.environ["PJRT_DEVICE"] = "CPU"'
    later = '\n    import torch_xla.runtime as xr\n    xr.set_device_type("CPU")'
    first = train(tmp_path / "before", "plugin", cache, script=before + SCRIPT)
    second = train(tmp_path / "later", "plugin", cache, script=later + SCRIPT)
    assert first[0] == second[0]
    assert (first[1]["enabled"], second[1]["misses"]) == (True, 0)
    _, builtin, _ = train(tmp_path / "builtin", "builtin", cache, script=before + SCRIPT, forked=True)
    assert builtin["enabled"] is False


def test_server_and_container_have_the_same_default() -> None:
    """The container's package is a distribution of its own, so each has the constant."""
    assert (host_copies.CLIENT, host_copies.DEFAULT_CLIENT) == (device.CLIENT, device.DEFAULT_CLIENT)
    assert host_copies.DEFAULT_CLIENT in device.CLIENTS


def test_a_plugin_that_does_not_work_is_replaced_by_the_built_in_client(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / plugin.CPU_MODULE).mkdir(parents=True)
    (site / plugin.CPU_MODULE / "__init__.py").touch()
    (site / plugin.CPU_MODULE / "pjrt_c_api_cpu_plugin.so").write_bytes(b"no library")
    facts = site / f"{plugin.CPU_MODULE}-0.11.2.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text(f"Metadata-Version: 2.1\nName: {plugin.CPU_PLUGIN}\nVersion: 0.11.2\n")
    losses, _, log = train(tmp_path / "job", "plugin", tmp_path, PYTHONPATH=f"{RUNTIME}:{site}")
    assert losses[-1] < losses[0]
    assert f"since {plugin.CPU_PLUGIN} 0.11.2 does not work here: the trial failed while" in log
    told = json.loads((tmp_path / "job/output/sagelet/compilation.json").read_text())
    assert (told["compiled"], told["platform"]) == (True, "CPU")
    assert "does not work here" in told["reason"]
