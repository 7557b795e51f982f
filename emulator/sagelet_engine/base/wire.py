"""Names for values without a fixed type that come from or go to a document: its keys are known, its values may be any.

Such values come from, or go to, a client, a file, a container or a library. What sagelet itself knows is an attribute
of a dataclass or a member of a TypedDict. Standard library only: nodes of a cluster import it.
"""

from typing import Any

#: An object of JSON or a table of TOML, whole or a part of one, as it was parsed or as it will be written.
JsonObject = dict[str, Any]
