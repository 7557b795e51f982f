"""Users, roles and policies in moto's IAM. Every account has SageMaker's execution roles from the start.

moto keeps them in memory. `keeping` makes a change durable before it is answered, and an account's first use after a
restart puts back what it held.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from sagelet_api.auth.permissions import TRAINING_POLICY_TEXT
from sagelet_api.services.iam import execution_role
from sagelet_api.services.iam.identity import Role
from sagelet_api.services.iam.trust import Caller, trusts
from sagelet_api.services.moto.iam_records import records_of, restore
from sagelet_api.services.moto.process import MotoProcess
from sagelet_engine.store.iam import IamKey

#: The principal that runs training jobs.
SERVICE = "sagemaker.amazonaws.com"
PARTITIONS = frozenset({"aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b"})
_SEEDED = "sagelet_execution_roles"


#: Services that change what IAM holds. A unit test compares them with moto's code.
CHANGERS = frozenset({"cloudformation", "iam"})
#: Beginnings of operations that change nothing.
_READS = ("Describe", "Generate", "Get", "List", "Simulate")


class Records(Protocol):
    """The records of each account's IAM, by account and partition (`sagelet_engine/store/iam.py`)."""

    def accounts(self) -> list[tuple[str, str]]: ...

    def of(self, account: str, partition: str) -> dict[IamKey, str]: ...

    def change(self, account: str, partition: str, changed: Mapping[IamKey, str | None]) -> None: ...

    def forget(self, account: str) -> None: ...


class MotoIam:
    """`keep_in` makes it durable."""

    def __init__(self, moto: MotoProcess) -> None:
        self._moto = moto
        self._records: Records | None = None
        #: Accounts that had records when this process began.
        self._former: list[tuple[str, str]] = []
        #: What is durable, of the accounts that were used.
        self._durable: dict[tuple[str, str], dict[IamKey, str]] = {}
        #: Held from a change until it is durable. Requests for the IAM of a machine are few.
        self._changing = threading.Lock()

    def keep_in(self, records: Records) -> None:
        """Keeps everything in these records from now on. Called before the first request."""
        self._records, self._former, self._durable = records, records.accounts(), {}

    @contextmanager
    def keeping(self, account: str, partition: str, service: str, operation: str) -> Iterator[None]:
        """Makes what an operation of moto changes durable at the end of the block, also if it fails halfway."""
        self.load_former()
        if service not in CHANGERS or operation.startswith(_READS):
            yield
            return
        with self._changing:
            try:
                yield
            finally:
                self._keep(account, partition)

    def _keep(self, account: str, partition: str) -> None:
        iam = self.of(account, partition)
        if self._records is None:
            return
        now, before = records_of(iam), self._durable.get((account, partition), {})
        changed: dict[IamKey, str | None] = dict.fromkeys(before.keys() - now.keys())
        changed.update((key, text) for key, text in now.items() if before.get(key) != text)
        if changed:
            self._records.change(account, partition, changed)
            self._durable[account, partition] = now

    def _is_unused(self) -> bool:
        """True if IAM holds only what is there from the start: no call has needed moto, and nothing was durable."""
        return not self._moto.is_loaded and not self._former

    def load_former(self) -> None:
        """Restores all accounts of an earlier process. moto's services look for roles in IAM."""
        for account, partition in self._former:
            self.of(account, partition)

    def forget(self, account: str) -> None:
        """Removes all that an account's IAM holds. The execution roles are made anew."""
        with self._changing, self._moto.seeding:
            if self._records is not None:
                self._records.forget(account)
            self._former = [one for one in self._former if one[0] != account]
            for place in [one for one in self._durable if one[0] == account]:
                del self._durable[place]
            if self._moto.is_loaded:
                self._moto.backend("iam")[account].reset()

    def may_assume(self, account: str, role: str, service: str = SERVICE) -> bool:
        """True if the account's IAM has the role with this ARN, and its trust policy lets the service assume it."""
        found = self.of(account, role.split(":")[1]).roles.values()
        caller = Caller.service(service)
        return any(one.arn == role and trusts(one.assume_role_policy_document, caller) for one in list(found))

    def user_of_key(self, access_key: str) -> str | None:
        """Returns the ARN of the user who has the key, or None for any other key."""
        for iam in self._every_iam():
            if access_key in iam.access_keys:
                return next((user.arn for user in [*iam.users.values()] if _has_key(user, access_key)), None)
        return None

    def secret_of(self, access_key: str) -> tuple[str, str] | None:
        """Returns secret and account of a user's active key, or None if nobody has such a key."""
        if self._is_unused():
            return None
        for iam in self._every_iam():
            key = iam.access_keys.get(access_key)
            if key is not None and key.status == "Active":
                return key.secret_access_key, iam.account_id
        return None

    def _every_iam(self) -> list[Any]:
        self.load_former()
        return [iam for account in [*self._moto.backend("iam").values()] for iam in [*account.values()]]

    def role(self, arn: str) -> Role | None:
        """Returns a role by its ARN, or None if there is no such role."""
        found = self._role(arn)
        if found is None:
            return None
        return Role(found.id, found.name, found.assume_role_policy_document, int(found.max_session_duration or 3600))

    def _role(self, arn: str) -> Any:
        parts = arn.split(":", 5)
        if len(parts) != 6 or not (parts[4].isascii() and parts[4].isdecimal()) or parts[1] not in PARTITIONS:
            return None
        return next((one for one in [*self.of(parts[4], parts[1]).roles.values()] if one.arn == arn), None)

    def role_policies(self, arn: str) -> Sequence[str]:
        """Returns the policies of a role as JSON, inline and attached. Empty for a role that IAM does not know."""
        if self._is_unused():
            # Nobody has made a role yet. The first job of a server must not load moto.
            return [TRAINING_POLICY_TEXT] if execution_role.is_seeded(arn) else []
        role = self._role(arn)
        if role is None:
            return []
        attached = [_default_version(policy) for policy in [*role.managed_policies.values()]]
        return [*role.policies.values(), *attached]

    def role_boundary(self, arn: str) -> Sequence[str] | None:
        """Returns the permissions boundary of a role, or None if it has none. A boundary whose policy does not exist
        permits nothing.
        """
        role: Any = None if self._is_unused() else self._role(arn)
        boundary = None if role is None else role.permissions_boundary_arn
        if not boundary:
            return None
        policy = self.of(role.account_id, role.partition).managed_policies.get(boundary)
        return [] if policy is None else [_default_version(policy)]

    def role_id(self, account: str, region: str, name: str) -> str | None:
        """Returns `AROA...`, or None if there is no such role."""
        roles = [*self.of(account, self._moto.partition(region)).roles.values()]
        return next((role.id for role in roles if role.name == name), None)

    def has_principal(self, account: str, region: str, arn: str) -> bool:
        """True if the user, group or role exists."""
        iam = self.of(account, self._moto.partition(region))
        return any(one.arn == arn for kind in (iam.roles, iam.users, iam.groups) for one in [*kind.values()])

    def policy(self, account: str, region: str, arn: str) -> str | None:
        """Returns a managed policy as JSON, or None if there is no such policy."""
        found = self.of(account, self._moto.partition(region)).managed_policies.get(arn)
        return None if found is None else _default_version(found)

    def partition(self, region: str) -> str:
        """Returns the partition of a region: `aws`, `aws-cn`, ..."""
        return self._moto.partition(region)

    def of(self, account: str, partition: str) -> Any:
        """Returns moto's IAM of an account, with the execution roles in it from its first use on."""
        iam = self._moto.backend("iam")[account][partition]
        with self._moto.seeding:
            self._fill(iam, account, partition)
        return iam

    def _fill(self, iam: Any, account: str, partition: str) -> None:
        """Fills each backend of moto once. The mark is in moto, so it is lost when moto forgets."""
        if getattr(iam, _SEEDED, False):
            return
        records = {} if self._records is None else self._records.of(account, partition)
        if records:
            restore(iam, records)
        else:
            _seed(iam, account, partition)
        self._durable[account, partition] = records
        _yield_to_own_roles(iam)
        setattr(iam, _SEEDED, True)


def _seed(iam: Any, account: str, partition: str) -> None:
    """Makes the execution roles."""
    for name, path in execution_role.ROLES.items():
        iam.create_role(
            name,
            execution_role.trust_policy(account, partition),
            path,
            permissions_boundary=None,
            description=execution_role.DESCRIPTION,
            tags=[],
            max_session_duration="3600",
        )
        iam.put_role_policy(name, execution_role.POLICY, TRAINING_POLICY_TEXT)


def _yield_to_own_roles(iam: Any) -> None:
    """Lets a script make its own SageMakerRole, as on a fresh account of AWS. Then that one is used."""
    make = iam.create_role
    ours = {
        role.id
        for role in iam.roles.values()
        if execution_role.ROLES.get(role.name) == role.path and role.description == execution_role.DESCRIPTION
    }

    def create_role(role_name: str, *details: Any, **more: Any) -> Any:
        for role in [iam.roles[known] for known in ours & set(iam.roles) if iam.roles[known].name == role_name]:
            ours.discard(role.id)
            del iam.roles[role.id]
        return make(role_name, *details, **more)

    iam.create_role = create_role


def _has_key(user: Any, access_key: str) -> bool:
    return any(key.access_key_id == access_key for key in [*user.access_keys])


def _default_version(policy: Any) -> str:
    return next((one.document for one in policy.versions if one.version_id == policy.default_version_id), "")
