"""What Podman's Docker API does otherwise than Docker's. Measured with Podman 4.3.1."""

import json
from collections.abc import Mapping
from typing import Any

from requests import Response

from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.runtimes.docker import spec
from sagelet_engine.runtimes.docker.networks import JobNetworks

#: The oldest version of Podman's own API, which is beside Docker's.
API = "v4.0.0/libpod"
#: Podman answers with the text of the OCI runtime (crun, runc), and the container keeps no error.
_NO_COMMAND = "attempted to invoke a command that was not found"
_NO_PERMISSION = "permission denied"


class PodmanNetworks(JobNetworks):
    """Every job has a network of its own, since Podman cannot keep the containers of one network apart.

    All is done by Podman's own API. Docker's has no option to leave out the name server. With a name server, the bridge
    of an isolated network has an address, through which containers would reach this machine. And where Docker's API
    has shown a network, Podman 4.3.1 forgets its option `isolate`, and with it the rules of its firewall.
    """

    def _shared(self) -> None:
        return None

    def _create(self, plan: LaunchPlan, name: str) -> str:
        wanted = {
            "name": name,
            "driver": "bridge",
            "internal": plan.network_isolation,
            "dns_enabled": False,  # all hosts are in /etc/hosts
            "labels": spec.job_labels(plan.job_id, self._owner),
            # Networks with this option do not reach each other.
            "options": {"isolate": "true"},
        }
        self._answer(self._api.post(self._url("create"), json=wanted))
        return self._subnet(name)

    def _labelled(self, labels: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        filters = json.dumps(spec.as_filters(labels))
        found = self._answer(self._api.get(self._url("json"), params={"filters": filters}))
        return [(one["id"], one["labels"]) for one in found or ()]

    def _subnet(self, name: str) -> str:
        found = self._answer(self._api.get(self._url(f"{name}/json")))
        return next(str(one["subnet"]) for one in found["subnets"] if ":" not in one["subnet"])

    def _url(self, path: str) -> str:
        return f"{self._api.base_url}/{API}/networks/{path}"

    def _answer(self, response: Response) -> Any:
        # docker-py has no calls for it. This raises docker-py's errors.
        return self._api._result(response, json=True)


def exit_code(explanation: str) -> int | None:
    """Returns the exit code of a command that could not be started, as a shell gives it. None for other errors."""
    if _NO_COMMAND in explanation:
        return 127
    return 126 if "exec" in explanation and _NO_PERMISSION in explanation.lower() else None
