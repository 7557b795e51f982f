"""The networks of jobs in Docker.

Jobs of several hosts have one each, with fixed addresses. Jobs of one host share one, in which no container reaches
another: to make and remove a network takes a third of a second of every job, and Docker has room for some thirty.
"""

import ipaddress
import logging
from collections.abc import Sequence
from typing import Any

from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from sagelet_engine.runtimes import docker_spec as spec
from sagelet_engine.runtimes.port import LaunchPlan

log = logging.getLogger(__name__)

#: Docker's own network without any.
NO_NETWORK = "none"
#: The network of jobs of one host, of all servers that use the engine. It stays: others may be about to use it.
SHARED = "sagelet"
SHARED_LABELS = {f"{spec.LABEL}network": "shared"}
#: No container of the network reaches another.
APART = {"com.docker.network.bridge.enable_icc": "false"}


class JobNetworks:
    """Raises docker-py's errors."""

    def __init__(self, api: Any, owners: Sequence[str]) -> None:
        """`owners`: by which a data directory is known; the first is for what is made."""
        self._api = api
        self._owners = owners
        self._may_share = True

    def join(self, plan: LaunchPlan) -> tuple[str, dict[str, str]]:
        """The job's network, made if need be, and for several hosts the address of each on it."""
        if len(plan.hosts) == 1:
            return (NO_NETWORK if plan.network_isolation else self._shared() or self._own(plan)[0]), {}
        name, subnet = self._own(plan)
        network = ipaddress.ip_network(subnet)
        # The first address is the gateway's.
        return name, {host.name: str(network[index]) for index, host in enumerate(plan.hosts, start=2)}

    def remove(self, job_id: str) -> None:
        """What a job has of its own."""
        for owner in self._owners:
            for network in self._api.networks(filters=spec.as_filters(spec.job_labels(job_id, owner))):
                try:
                    self._api.remove_network(network["Id"])
                except NotFound:
                    continue

    def jobs(self) -> set[str]:
        """Those that have a network of their own."""
        filters = spec.as_filters({spec.OWNER: self._owners[0]})
        return {network["Labels"][spec.JOB_ID] for network in self._api.networks(filters=filters)}

    def _shared(self) -> str | None:
        """The id of the shared network; None where the kernel cannot keep its containers apart."""
        if (found := self._oldest_shared()) or not self._may_share:
            return found
        try:
            made: str = self._api.create_network(SHARED, driver="bridge", options=APART, labels=SHARED_LABELS)["Id"]
        except APIError as error:
            log.warning("Each job gets a network of its own, since none can be shared: %s", error.explanation)
            self._may_share = False
            return None
        chosen = self._oldest_shared()
        if chosen is not None and chosen != made:  # another server was as quick: Docker lets two have one name
            self._api.remove_network(made)
        return chosen

    def _oldest_shared(self) -> str | None:
        networks = self._api.networks(filters=spec.as_filters(SHARED_LABELS))
        return min(((one["Created"], str(one["Id"])) for one in networks), default=("", None))[1]

    def _own(self, plan: LaunchPlan) -> tuple[str, str]:
        """Name and subnet of the network that the job has for itself."""
        name = spec.network_name(plan, self._owners[0])
        try:
            return name, _subnet(self._api.inspect_network(name))
        except NotFound:
            return name, self._create(plan, name)

    def _create(self, plan: LaunchPlan, name: str) -> str:
        if len(plan.hosts) == 1:
            self._new(plan, name, None)
            return _subnet(self._api.inspect_network(name))
        subnet = self._free_subnet(plan, f"{name}-subnet")
        self._new(plan, name, IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]))
        return subnet

    def _free_subnet(self, plan: LaunchPlan, name: str) -> str:
        """Docker chooses a subnet, but fixes addresses only on one that was asked for: so we ask for its choice.

        The network of the choice has a name of its own: one that a killed server has left is not the job's.
        """
        try:
            subnet = _subnet(self._api.inspect_network(name))
        except NotFound:
            self._new(plan, name, None)
            subnet = _subnet(self._api.inspect_network(name))
        self._api.remove_network(name)
        return subnet

    def _new(self, plan: LaunchPlan, name: str, ipam: IPAMConfig | None) -> None:
        self._api.create_network(
            name,
            driver="bridge",
            ipam=ipam,
            internal=plan.network_isolation,
            options=spec.network_options(plan),
            check_duplicate=True,
            labels=spec.job_labels(plan.job_id, self._owners[0]),
        )


def _subnet(network: dict[str, Any]) -> str:
    return next(str(config["Subnet"]) for config in network["IPAM"]["Config"] if ":" not in config["Subnet"])
