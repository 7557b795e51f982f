"""The names of untyped values at the wire: documents for the server, messages between workers, and what scripts and
libraries pass to each other through sagelet's patches.
"""

from typing import Any

#: An object of JSON, whole or a part of one. The server types it: `sagelet_engine/telemetry/compiler`.
JsonObject = dict[str, Any]
#: Keyword arguments of a library's function, as a script gives them.
Arguments = dict[str, Any]
#: Attributes of a library's object, by name.
Attributes = dict[str, Any]
#: A state dict of PyTorch: tensors or numbers by name.
StateDict = dict[str, Any]
#: Dynamo's counters: groups of counts by the group's name.
CounterGroups = dict[str, Any]
