"""The names of untyped values at AWS's wire: what an operation takes and gives, by the members of its shapes.

The service model, botocore's, is their type: `validation.py` holds requests to it, and clients hold answers to it.
"""

from collections.abc import Mapping
from typing import Any

#: Members of a request that was read by its service model. Nothing is missing that the model demands.
Parameters = dict[str, Any]
#: The same, or one structure of it, where it is only read.
Request = Mapping[str, Any]
#: Members of an answer, or of one structure in it. Times are as the protocol's codec takes them.
Output = dict[str, Any]
