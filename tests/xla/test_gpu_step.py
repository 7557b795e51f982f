"""The measurement of docs/how-to/gpu.md runs where there is no GPU, too: with a small model on the CPU."""

import pytest

pytestmark = pytest.mark.xla


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_measurement_without_a_gpu(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    from bench import gpu_step

    small = {"LAYERS": 1, "WIDTH": 32, "HEADS": 2, "VOCABULARY": 100, "LENGTH": 16}
    for name, value in small.items():
        monkeypatch.setattr(gpu_step, name, value)
    found = gpu_step.measured("eager", precision, 2, 3)
    assert (found["device"], found["rows"], len(found["first_steps_s"])) == ("cpu", 2, gpu_step.FIRST)
    # A random model guesses among 100 words: ln 100 = 4.6.
    assert found["loss"] == pytest.approx(4.6, abs=0.3)
    assert set(found["host_ms"]) == {"forward", "backward", "optimizer", "sync"}
