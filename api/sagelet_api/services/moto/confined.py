"""Confines moto to this process: it starts no container and sends nothing to a URL.

moto's Lambda and Batch run what they are given in Docker, Batch privileged and with any directory of this machine if
asked to. Its SNS, Firehose and others send requests to URLs that clients name, and those may be this machine's. What
its CloudWatch keeps in memory is bounded (`metrics.py`).
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from sagelet_api.services.moto import metrics as moto_metrics

#: Modules of moto's that ask other hosts, by `requests`. A unit test compares them with what moto's code does.
SENDERS = frozenset(
    {
        "moto.apigateway.integration_parsers.aws_parser",
        "moto.apigateway.integration_parsers.http_parser",
        "moto.events.models",
        "moto.firehose.models",
        "moto.moto_api._internal.recorder.models",
        "moto.sns.models",
        "moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_api_gateway",
    }
)
_VERBS = frozenset({"delete", "get", "head", "options", "patch", "post", "put", "request", "Session", "session"})


#: What of CloudWatch is ours.
_CLOUDWATCH = {
    "moto.cloudwatch.models": moto_metrics.bound,
    "moto.cloudwatch.responses": moto_metrics.answer_statistics,
}
#: What is changed as soon as it is loaded.
_CHANGED = SENDERS | _CLOUDWATCH.keys()


class Confined(Exception):
    """moto was about to leave this process; the text says where to."""


def confine() -> None:
    """Once moto can be imported, and before it answers. May be repeated."""
    docker_model: Any = import_module("moto.utilities.docker_utilities").DockerModel
    docker_model.docker_client = property(_no_container)
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name in _CHANGED & sys.modules.keys():
        _change(sys.modules[name])


def _no_container(asking: object) -> Any:
    raise Confined(
        f"sagelet starts no container for moto's {type(asking).__name__}; training jobs are what runs code here"
    )


def _change(module: ModuleType) -> None:
    if module.__name__ in _CLOUDWATCH:
        _CLOUDWATCH[module.__name__](module)
        return
    vars(module)["requests"] = _Requests(module.__name__.split(".")[1])


class _Requests:
    """Stands where a module has the library `requests`."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        if name in _VERBS:
            raise Confined(
                f"sagelet sends nothing to URLs, and moto's {self._service} was about to: let it send to a queue"
            )
        return getattr(import_module("requests"), name)


class _Finder(MetaPathFinder):
    """moto imports its services when they are asked for first."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _CHANGED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _change(module)
