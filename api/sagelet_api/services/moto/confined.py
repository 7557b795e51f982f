"""Confines moto to this process: it starts no container and sends nothing to a URL.

moto's Lambda and Batch run what they are given in Docker, Batch privileged and with any directory of this machine that
the request names. Its SNS, Firehose and others send requests to URLs that clients name, which may be on this machine.
`metrics.py` bounds what its CloudWatch keeps in memory.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from sagelet_api.services.moto import function_roles
from sagelet_api.services.moto import metrics as moto_metrics
from sagelet_api.services.moto import sagemaker as moto_sagemaker

#: Modules of moto that send requests to other hosts through `requests`. A unit test compares them with moto's code.
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


def _replace_metrics(models: ModuleType) -> None:
    # The evaluation of metric math is loaded with moto's CloudWatch.
    from sagelet_api.services.moto import metric_answers

    moto_metrics.bound(models)
    moto_metrics.leave_alarms_unevaluated(models)
    metric_answers.answer_data(models)


def _replace_statistics(responses: ModuleType) -> None:
    from sagelet_api.services.moto import metric_answers

    metric_answers.answer_statistics(responses)


#: The parts of CloudWatch, Lambda and SageMaker that sagelet replaces.
_REPLACED = {
    "moto.awslambda.models": function_roles.accept_every_role,
    "moto.cloudwatch.models": _replace_metrics,
    "moto.cloudwatch.responses": _replace_statistics,
    "moto.sagemaker.models": moto_sagemaker.mend,
}
#: Changes to a module, made as soon as it is loaded.
_CHANGED = SENDERS | _REPLACED.keys()
#: In a module that was changed.
_MARK = "sagelet_confined"


class Confined(Exception):
    """moto was about to leave this process. The text says where to."""


def confine() -> None:
    """Confines moto. Called when moto can be imported, and before it answers. May be repeated."""
    docker_model: Any = import_module("moto.utilities.docker_utilities").DockerModel
    docker_model.docker_client = property(_no_container)
    # First: what is imported from now on is changed by its loader.
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in _CHANGED & sys.modules.keys():
        # A program that runs its own server may use moto, too. If another thread is importing the module, this waits
        # for the end of it, which would undo the change.
        _change(import_module(name))


def _no_container(asking: object) -> Any:
    raise Confined(
        f"sagelet starts no container for moto's {type(asking).__name__}; training jobs are what runs code here"
    )


def _change(module: ModuleType) -> None:
    if _MARK in vars(module):
        return
    if module.__name__ in _REPLACED:
        _REPLACED[module.__name__](module)
    else:
        vars(module)["requests"] = _Requests(module.__name__.split(".")[1])
    vars(module)[_MARK] = True


class _Requests:
    """Takes the place of the library `requests` in a module."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        if name in _VERBS:
            raise Confined(
                f"sagelet sends nothing to URLs, and moto's {self._service} was about to: let it send to a queue"
            )
        return getattr(import_module("requests"), name)


class _Finder(MetaPathFinder):
    """Patches a service of moto at its import, which moto does on the service's first use."""

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
