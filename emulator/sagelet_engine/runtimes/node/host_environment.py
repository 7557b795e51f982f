"""The command and the environment of a host of the process runtime."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from sagelet_engine.base.json_files import write_json
from sagelet_engine.model.runtime import HostPlan, LaunchPlan

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
#: The only variables that pass from the server's environment to a host. Its AWS credentials never do.
PASSED = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "REQUESTS_CA_BUNDLE", *PROXIES})
PASSED_PREFIXES = ("PIP_", "SSL_CERT_")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command_of(plan: LaunchPlan, image_command: tuple[str, ...]) -> list[str]:
    """Returns the command. `image_command` replaces the image's `train` (SageMaker runs `docker run IMAGE train`)."""
    if plan.entrypoint is not None:
        return [*plan.entrypoint, *plan.arguments]
    if plan.arguments[:1] in ((), ("train",)):
        return [*image_command, *plan.arguments[1:]]
    return list(plan.arguments)


def environment_of(
    plan: LaunchPlan,
    host: HostPlan,
    image_command: tuple[str, ...],
    python_path: str,
    server: Mapping[str, str],
    master_port: int,
) -> dict[str, str]:
    """Returns the environment of the command. The lease of GPUs outranks the plan's own CUDA_VISIBLE_DEVICES.

    `master_port`: the port that is leased to the job.
    """
    passed = {name: value for name, value in server.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}
    passed |= _no_proxy_for(plan.environment.get("AWS_ENDPOINT_URL", ""), passed)
    environment = {
        **passed,
        # The interpreter replaces the image's, so scripts must get the `python`, `pip` and `torchrun` beside it.
        "PATH": _joined(os.path.dirname(image_command[0]), passed.get("PATH", DEFAULT_PATH)),
        "PYTHONUNBUFFERED": "1",
        # Without it sagemaker-training waits up to 15 minutes until DNS knows `algo-1`.
        "SM_STUDIO_LOCAL_MODE": "true",
        # sagelet's framework module reads it, since jobs share this machine's ports.
        "SAGELET_MASTER_PORT": str(master_port),
        **({} if host.gpu_uuids else {"NVIDIA_VISIBLE_DEVICES": "void"}),
        **plan.environment,
    }
    environment["PYTHONPATH"] = _joined(plan.environment.get("PYTHONPATH", ""), python_path)
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(host.gpu_uuids)
    return environment


def _no_proxy_for(endpoint: str, passed: Mapping[str, str]) -> dict[str, str]:
    """Exempts the server from a proxy: a proxy to the internet cannot reach this machine or its neighbours."""
    host = urlsplit(endpoint).hostname
    if not host or not any(name in passed for name in PROXIES):
        return {}
    listed = passed.get("no_proxy") or passed.get("NO_PROXY", "")
    if listed.strip() == "*":
        return {}
    hosts = [host, *(one for one in listed.split(",") if one and one != host)]
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(hosts))


def addresses_of(plan: LaunchPlan) -> dict[str, str]:
    """Returns a loopback address for each host, so that hosts and jobs may listen on the same port."""
    digest = hashlib.sha256(plan.job_id.encode()).digest()
    # Not 127.0.x: services of this machine listen there.
    network = f"127.{digest[0] % 254 + 1}.{digest[1]}"
    return {host.name: f"{network}.{number}" for number, host in enumerate(plan.hosts, 1)}


def _joined(*paths: str) -> str:
    return os.pathsep.join(path for path in paths if path)


class OptMlPaths:
    """Replaces `/opt/ml` at the start of paths by the job directory, for machines without mount namespaces."""

    def __init__(self, opt_ml: Path) -> None:
        self._opt_ml = str(opt_ml)
        # A job directory below /opt/ml must not be rewritten twice.
        below = self._opt_ml.removeprefix("/opt/ml") if self._opt_ml.startswith("/opt/ml") else None
        done = "" if below is None else f"(?!{re.escape(below)})"
        self._pattern = re.compile(rf"(?:(?<=file://)|(?<![\w.\-/]))/opt/ml(?![\w.\-]){done}")

    def rewritten(self, value: str) -> str:
        return self._pattern.sub(lambda _: self._opt_ml, value)

    def rewrite_hyperparameters(self) -> None:
        """Rewrites the paths in the job's own copy. The request keeps what the user sent."""
        path = Path(self._opt_ml, "input/config/hyperparameters.json")
        if not path.is_file():
            return
        values: dict[str, str] = json.loads(path.read_text())
        mode = path.stat().st_mode
        write_json(path, {name: self.rewritten(value) for name, value in values.items()})
        path.chmod(mode)

    def link(self, name: str, target: Path) -> None:
        """Replaces a directory that is empty or missing by a link to another directory."""
        place = Path(self._opt_ml, name)
        if not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                place.rmdir()
            place.symlink_to(target.absolute())

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        rewritten = {name: self.rewritten(value) for name, value in environment.items()}
        return {**rewritten, "SAGEMAKER_BASE_DIR": self._opt_ml}
