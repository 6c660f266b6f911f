"""The platform and its operator as processes of a real node, which pulls images from the platform's registry."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard.local.state import StateDir, read_platform
from steelyard_schema.definitions import load_definitions
from tests.engines.artifacts.images import STEPS, steps_archive
from tests.engines.node.cluster import carried_port, node_cluster
from tests.engines.node.configs import NODE_ADDRESS, Addition

PORT = 5000
REGISTRY = f"{NODE_ADDRESS}:{PORT}"
"""Address of the registry for the node."""
SECONDS = 180.0
SETTINGS = f"""kubernetes = "{{folder}}/admin.kubeconfig"
[api]
host = "0.0.0.0"
port = {PORT}
image_registry = "{REGISTRY}"
[operator.images]
steps = "{STEPS}"
"""
HOSTS = f"""server = "http://{REGISTRY}"
[host."http://{REGISTRY}"]
capabilities = ["pull", "resolve"]
"""
"""File that lets containerd pull from a registry without TLS."""
NAMES = f"nameserver {NODE_ADDRESS}\nsearch cluster.local\noptions ndots:5\n"
"""DNS of a Pod: the platform, which is a process of the node here, finds the replicas of sessions by it."""
AS_POD = 'mount --bind {folder}/pods.resolv.conf /etc/resolv.conf; exec "$@"'


@dataclass(frozen=True)
class Platform:
    """A platform on a real cluster, as programs of this machine reach it."""

    url: str
    token: str
    kubeconfig: Path

    @property
    def host(self) -> str:
        """Address of the registry for this machine, without scheme."""
        return self.url.removeprefix("http://").removesuffix("/v0")


@contextmanager
def platform() -> Iterator[Platform]:
    """Start a cluster with a platform on it. Raises Missing."""
    with node_cluster(_addition()) as kubeconfig:
        yield Platform(
            f"http://127.0.0.1:{carried_port(kubeconfig, PORT)}/v0", _token(kubeconfig.parent), kubeconfig
        )


def _addition() -> Addition:
    service = [sys.executable, "-m", "steelyard.cli.service"]
    settings = ["--settings", "{folder}/steelyard.toml", "--state-dir"]
    return Addition(
        images=(str(steps_archive()),),
        objects=load_definitions(),
        files={
            "steelyard.toml": SETTINGS,
            f"certs.d/{REGISTRY}/hosts.toml": HOSTS,
            "pods.resolv.conf": NAMES,
        },
        commands={
            "platform": [
                *("unshare", "--mount", "sh", "-ec", AS_POD, "sh"),
                *(*service, "platform", *settings, "{folder}/platform"),
            ],
            "operator": [*service, "operator", *settings, "{folder}/operator"],
        },
        ports=(PORT,),
    )


def _token(folder: Path) -> str:
    """Return the administrator's token once the API answers."""
    end = time.monotonic() + SECONDS
    while (token := read_platform(StateDir(folder / "platform"))[1]) is None:
        if time.monotonic() > end:
            logs = [folder / "logs" / f"{name}.log" for name in ("platform", "operator")]
            raise TimeoutError("\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in logs))
        time.sleep(0.1)
    return token
