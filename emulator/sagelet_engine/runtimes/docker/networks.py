"""The networks of jobs in Docker.

A job of several hosts has a network of its own, with fixed addresses. Jobs of one host share one network, in which no
container reaches another: making and removing a network takes a third of a second, and Docker has room for about 30.
"""

import ipaddress
import logging
from collections.abc import Mapping
from typing import Any

from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.runtimes.docker import spec

log = logging.getLogger(__name__)

#: Docker's built-in network mode without any network.
NO_NETWORK = "none"
#: The network of single-host jobs, for all servers of the engine. It is never removed, since others may be about to
#: use it.
SHARED = "sagelet"
SHARED_LABELS = {f"{spec.LABEL}network": "shared"}
#: Keeps the containers of a network from reaching each other.
APART = {"com.docker.network.bridge.enable_icc": "false"}


class JobNetworks:
    """Makes, finds and removes the networks of jobs. Its methods raise docker-py's errors."""

    def __init__(self, api: Any, owner: str) -> None:
        """`owner`: the data directory's id, in labels."""
        self._api = api
        self._owner = owner
        self._may_share = True

    def join(self, plan: LaunchPlan) -> tuple[str, dict[str, str]]:
        """Returns the job's network and, if it has several hosts, the address of each. Makes a missing network."""
        if len(plan.hosts) == 1:
            return (NO_NETWORK if plan.network_isolation else self._shared() or self._own(plan)[0]), {}
        name, subnet = self._own(plan)
        network = ipaddress.ip_network(subnet)
        # The first address is the gateway's.
        return name, {host.name: str(network[index]) for index, host in enumerate(plan.hosts, start=2)}

    def remove(self, job_id: str) -> None:
        """Removes the networks that a job has for itself. Missing ones are not an error."""
        for network, _ in self._labelled(spec.job_labels(job_id, self._owner)):
            try:
                self._api.remove_network(network)
            except NotFound:
                continue

    def jobs(self) -> set[str]:
        """Returns the ids of jobs that have a network for themselves."""
        return {labels[spec.JOB_ID] for _, labels in self._labelled({spec.OWNER: self._owner})}

    def _labelled(self, labels: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Returns the ids and all labels of the networks that have these."""
        return [(one["Id"], one["Labels"]) for one in self._api.networks(filters=spec.as_filters(labels))]

    def _shared(self) -> str | None:
        """Returns the id of the shared network, or None if the kernel cannot keep its containers apart."""
        if (found := self._oldest_shared()) or not self._may_share:
            return found
        try:
            made: str = self._api.create_network(SHARED, driver="bridge", options=APART, labels=SHARED_LABELS)["Id"]
        except APIError as error:
            log.warning("Each job gets a network of its own, since none can be shared: %s", error.explanation)
            self._may_share = False
            return None
        chosen = self._oldest_shared()
        if chosen is not None and chosen != made:  # another server made one, too: Docker allows equal names
            self._api.remove_network(made)
        return chosen

    def _oldest_shared(self) -> str | None:
        networks = self._api.networks(filters=spec.as_filters(SHARED_LABELS))
        return min(((one["Created"], str(one["Id"])) for one in networks), default=("", None))[1]

    def _own(self, plan: LaunchPlan) -> tuple[str, str]:
        """Returns name and subnet of the network that the job has for itself."""
        name = spec.network_name(plan, self._owner)
        try:
            return name, self._subnet(name)
        except NotFound:
            return name, self._create(plan, name)

    def _subnet(self, name: str) -> str:
        """Returns a network's IPv4 subnet. Raises NotFound."""
        configs = self._api.inspect_network(name)["IPAM"]["Config"]
        return next(str(config["Subnet"]) for config in configs if ":" not in config["Subnet"])

    def _create(self, plan: LaunchPlan, name: str) -> str:
        if len(plan.hosts) == 1:
            self._new(plan, name, None)
            return self._subnet(name)
        subnet = self._free_subnet(plan, f"{name}-subnet")
        self._new(plan, name, IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]))
        return subnet

    def _free_subnet(self, plan: LaunchPlan, name: str) -> str:
        """Returns a subnet that Docker chose. Docker gives fixed addresses only on a subnet that was asked for.

        So this makes a temporary network to see Docker's choice, and the job's network then asks for that subnet. The
        temporary network has another name: if a killed server leaves it behind, it is not mistaken for the job's.
        """
        try:
            subnet = self._subnet(name)
        except NotFound:
            self._new(plan, name, None)
            subnet = self._subnet(name)
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
            labels=spec.job_labels(plan.job_id, self._owner),
        )
