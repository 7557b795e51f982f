"""The name of untyped values at the wire: documents for the server, and messages between workers."""

from typing import Any

#: An object of JSON, whole or a part of one. The server types it: `sagelet_engine/telemetry/compiler`.
JsonObject = dict[str, Any]
