"""Notes where values of XLA tensors are read. For each, the graph so far has to run, and Python waits for it."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.reporting.recorder import Reading, Recorder

_READS = ("item", "tolist", "numpy", "cpu", "__repr__", "__format__", "__bool__", "__int__", "__float__", "__index__")


def install(torch: Any, recorder: Recorder) -> None:
    local = recorder.reading
    # Subclasses may have a __torch_function__, which sees every attribute access.
    plain = frozenset((torch.Tensor, torch.nn.Parameter))
    for name in _READS:
        setattr(torch.Tensor, name, _reading(getattr(torch.Tensor, name), name, plain, local, recorder))
    torch.Tensor.to = _moving(torch.Tensor.to, torch.device, plain, local, recorder)
    torch.Tensor.cuda = _asking(torch.Tensor.cuda, recorder)


def _reading(
    original: Callable[..., Any], name: str, plain: frozenset[type], local: Reading, recorder: Recorder
) -> Callable[..., Any]:
    @untraced
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) not in plain or not self.is_xla or local.inside:
            return original(self, *args, **kwargs)
        return _evaluated(original, name, local, recorder, self, args, kwargs)

    return method


def _evaluated(
    original: Callable[..., Any], name: str, local: Reading, recorder: Recorder, tensor: Any, args: Any, kwargs: Any
) -> Any:
    local.inside = True
    began = recorder.waits.begin()
    try:
        return original(tensor, *args, **kwargs)
    finally:
        local.inside = False
        frame, seconds = sys._getframe(2), recorder.waits.spent(began)
        recorder.evaluations.add(name, frame, seconds)
        recorder.waits.read(name, frame, seconds)


def _moving(
    original: Callable[..., Any], device: type, plain: frozenset[type], local: Reading, recorder: Recorder
) -> Callable[..., Any]:
    @untraced
    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = kwargs.get("device") if kwargs else None
        if target is None and args:
            target = args[0]
        if isinstance(target, (str, device)):
            kind = str(target)
            if kind.startswith("cuda"):
                recorder.cuda_requests.add("to", sys._getframe(1))
            elif kind.startswith("cpu") and type(self) in plain and self.is_xla and not local.inside:
                return _evaluated(original, "to", local, recorder, self, args, kwargs)
        return original(self, *args, **kwargs)

    return to


def _asking(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @untraced
    @functools.wraps(original)
    def cuda(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.cuda_requests.add("cuda", sys._getframe(1))
        return original(self, *args, **kwargs)

    return cuda
