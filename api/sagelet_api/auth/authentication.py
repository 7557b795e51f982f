"""Authenticates requests: signatures against the key pair, keys of IAM and STS, and the sessions of jobs.

Where signatures are not required (on loopback without `--auth`), any key is accepted, but not any session. A caller
with a job's session token is that job, and may do what its role may. A session of STS is checked, and it expires.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timezone

from sagelet_api.auth import signature_errors as errors
from sagelet_api.auth.authorization import Authorization
from sagelet_api.auth.callers import Callers, Secret
from sagelet_api.auth.signature_v2 import check_version_2, is_version_2
from sagelet_api.auth.signatures import check, check_time, read_claim
from sagelet_api.auth.signed_bodies import payload_of, protect
from sagelet_api.protocol.aws_errors import AccessDenied, MissingAuthenticationToken
from sagelet_api.protocol.calls import FROM_CONTAINERS, FROM_PAGE, MAX_BODY, NEEDS_LOGIN, Call, Environ
from sagelet_engine.model.principal import owner

_log = logging.getLogger(__name__)


class Authentication:
    """Authenticates callers. `everywhere`: signatures are checked on loopback, too (`--auth`)."""

    def __init__(
        self,
        callers: Callers,
        authorization: Authorization,
        *,
        everywhere: bool,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._callers = callers
        self._authorization = authorization
        self._everywhere = everywhere
        self._now = now

    def admit(self, call: Call, environ: Environ) -> Call:
        """Returns the call with its account and its permissions. Raises AwsError for an invalid signature."""
        if not (self._checks(environ) or call.is_session):
            return call._replace(principal=owner(call.account))
        secret = self._verified(call, environ)
        who = secret.principal
        known = call._replace(account=secret.account, principal=who, job=secret.job, session=secret.session)
        if not self._authorization.limits(who):
            return known
        return known._replace(permit=lambda *what: self._authorization(who, *what))

    def admit_to_control(self, call: Call, environ: Environ, *, public: bool) -> None:
        """Admits the owner to the control endpoints. `public`: an endpoint that everybody may see. Raises AwsError."""
        if call.is_session:
            raise AccessDenied("The credentials of a training job or a role do not reach sagelet's control endpoints.")
        if not self._checks(environ) or (public and call.credential is None):
            return
        if call.credential is None:
            raise MissingAuthenticationToken(
                "Missing Authentication Token: this server checks signatures. sagelet's own commands sign with the key "
                "pair of its data directory: name that with --data (SAGELET_DATA)."
            )
        if not self._verified(call, environ).owner:
            raise AccessDenied("sagelet's control endpoints take the key pair of its data directory, and no other key.")

    def admit_to_page(self, call: Call, environ: Environ) -> None:
        """Admits the owner to the pages. A browser does not sign, so it has to log in where signatures are checked.
        Raises AwsError.
        """
        if call.is_session:
            raise AccessDenied("The credentials of a training job or a role do not reach sagelet's pages.")
        environ[NEEDS_LOGIN] = self._checks(environ)

    def _checks(self, environ: Environ) -> bool:
        return self._everywhere or bool(environ.get(FROM_CONTAINERS) or environ.get(FROM_PAGE))

    def _verified(self, call: Call, environ: Environ) -> Secret:
        """Returns the secret whose key signed the request."""
        assert call.credential is not None
        access_key, token = call.credential.access_key, call.token
        secret = self._callers.secret_of(call.credential, token)
        if secret is None:
            _log.warning(
                "Refused an access key that nobody here gave out, request %s. `sagelet run` and `sagelet env` bring "
                "the right one; it is in the data directory's file `credentials`.",
                call.request_id,
            )
            if call.is_session:
                raise errors.invalid_token(call, access_key)
            raise errors.unknown_key(call, access_key)
        self._check_signature(call, environ, secret)
        if token != secret.token:
            raise errors.invalid_token(call, access_key)
        ended = secret.expires_ms is not None and self._now().timestamp() * 1000 >= secret.expires_ms
        if secret.expired or ended:
            raise errors.expired_token(call)
        return secret

    def _check_signature(self, call: Call, environ: Environ, secret: Secret) -> None:
        if is_version_2(call):
            check_version_2(call, environ, secret, self._now())
            return
        claim = read_claim(call)
        check_time(call, claim, self._now())
        payload = payload_of(call, environ, claim, MAX_BODY)
        protect(call, environ, payload, check(call, environ, claim, secret, payload))
