"""sagelet's threads must not override attributes of threading.Thread, on any Python that sagelet runs on."""

import ast
import inspect
import threading

import pytest

from sagelet_engine.execution.log_recorder import Follower
from sagelet_engine.execution.supervisor import Supervisor
from sagelet_engine.scheduling.local import LocalScheduler

#: Attributes of threading.Thread in CPython 3.10 to 3.14 (`_handle` came with 3.13, `_context` with 3.14).
TAKEN = {
    "_args",
    "_bootstrap",
    "_context",
    "_daemonic",
    "_delete",
    "_handle",
    "_ident",
    "_initialized",
    "_invoke_excepthook",
    "_is_stopped",
    "_kwargs",
    "_name",
    "_native_id",
    "_os_thread_handle",
    "_started",
    "_stderr",
    "_stop",
    "_target",
    "_tstate_lock",
} | set(vars(threading.Thread))


@pytest.mark.parametrize("thread", [Follower, LocalScheduler, Supervisor])
def test_no_attribute_of_thread_is_hidden(thread: type[threading.Thread]) -> None:
    tree = ast.parse(inspect.getsource(thread))
    assigned = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    assert assigned
    assert not assigned & TAKEN
