"""CreatedBy and LastModifiedBy: who called, as a UserContext."""

from collections.abc import Callable

from sagelet_api.protocol.members import Output
from sagelet_api.protocol.operations import Context
from sagelet_api.services.iam import execution_role
from sagelet_engine.model.arns import partition
from sagelet_engine.model.principal import session_arn

#: Returns the UserContext of a caller.
WhoCalls = Callable[[Context], Output]
#: How keys of IAM users begin (IAM user guide, "IAM identifiers").
_USER_KEY = "AKIA"


def caller(context: Context, user_of_key: Callable[[str], str | None]) -> Output:
    """Returns IamIdentity only, as on AWS for callers outside of Studio. An owner is a session of the execution role.

    `user_of_key`: returns the ARN of the IAM user who has an access key, or None.
    """
    if context.session is not None:
        return _identity(context.session.principal, context.session.user_id)
    if context.principal.arn:
        return _identity(context.principal.arn)
    user = user_of_key(context.access_key) if context.access_key.startswith(_USER_KEY) else None
    role = f"arn:{partition(context.region)}:iam::{context.account}:role{execution_role.PATH}{execution_role.NAME}"
    return _identity(user or session_arn(context.account, role, execution_role.SESSION))


def _identity(arn: str, principal_id: str = "") -> Output:
    return {"IamIdentity": {"Arn": arn, **({"PrincipalId": principal_id} if principal_id else {})}}
