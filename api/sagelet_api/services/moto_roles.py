"""The roles that moto's IAM of an account has from the start."""

from typing import Any

from sagelet_api.permissions import TRAINING_POLICY_TEXT
from sagelet_api.services import execution_role

_SEEDED = "sagelet_execution_roles"


def seed(iam: Any, account: str, partition: str) -> None:
    """Makes the execution roles, once for each of moto's backends: the mark is moto's, and goes when moto forgets."""
    if getattr(iam, _SEEDED, False):
        return
    make = iam.create_role
    for name, path in execution_role.ROLES.items():
        make(
            name,
            execution_role.trust_policy(account, partition),
            path,
            permissions_boundary=None,
            description=execution_role.DESCRIPTION,
            tags=[],
            max_session_duration="3600",
        )
        iam.put_role_policy(name, execution_role.POLICY, TRAINING_POLICY_TEXT)
    ours = {role.id for role in iam.roles.values() if role.name in execution_role.ROLES}

    def create_role(role_name: str, *details: Any, **more: Any) -> Any:
        # A script that makes its own SageMakerRole, as on a fresh account of AWS, gets that one.
        for role in [iam.roles[known] for known in ours & set(iam.roles) if iam.roles[known].name == role_name]:
            ours.discard(role.id)
            del iam.roles[role.id]
        return make(role_name, *details, **more)

    iam.create_role = create_role
    setattr(iam, _SEEDED, True)
