"""What the model registry holds: models, model packages and groups of them. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.arns import arn


class RegistryKind(str, Enum):
    """The word of each kind in ARNs."""

    MODEL = "model"
    PACKAGE = "model-package"
    GROUP = "model-package-group"


@dataclass(frozen=True)
class RegistryKey:
    """The name of an entry, unique in an account, region and kind. Case does not count.

    The name of a package in a group is `GROUP/VERSION`.
    """

    account: str
    region: str
    kind: RegistryKind
    name: str

    @property
    def arn(self) -> str:
        return arn("sagemaker", self.region, self.account, f"{self.kind.value}/{self.name.lower()}")

    @property
    def group(self) -> "RegistryKey | None":
        """Returns the group of a package. None for one that has no version, and for other kinds."""
        name, slash, _version = self.name.partition("/")
        return RegistryKey(self.account, self.region, RegistryKind.GROUP, name) if slash else None


@dataclass(frozen=True)
class RegistryEntry:
    """All durable data of one entry; times in ms since the epoch."""

    key: RegistryKey
    created_ms: int
    modified_ms: int
    #: Members of the Create call with what updates have changed, as Describe shows them. Without tags.
    body: JsonObject
    #: UserContext of who made it, and of who changed it last.
    created_by: JsonObject = field(default_factory=dict)
    modified_by: JsonObject = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    #: ClientToken of the Create call, and of the last update.
    token: str = ""
    update_token: str = ""
    #: Of a package: its version in the group, from 1. Of a group: the last version that it gave out.
    version: int = 0


class RegistryQuery(NamedTuple):
    """A list. `after`: the last entry of the page before, as (value in the order, ARN)."""

    account: str
    region: str
    kind: RegistryKind
    #: Part of the name, compared without case. Times in ms, exclusive.
    name_contains: str = ""
    created_after_ms: int | None = None
    created_before_ms: int | None = None
    #: Of packages: those of this group; with a version, without one, or (None) both.
    group_arn: str | None = None
    versioned: bool | None = None
    approval: str | None = None
    by_name: bool = False
    ascending: bool = True
    limit: int = 10
    after: tuple[str | int, str] | None = None
