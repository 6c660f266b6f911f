"""Engines that the shapes `small` and `large` need: real servers in the network of the cluster's node."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from steelyard_common.types import Json
from tests.engines.chart.helm import Cluster
from tests.engines.node.cluster import network_holder
from tests.engines.services import together
from tests.engines.services.network import link
from tests.engines.services.s3 import client_environment
from tests.engines.services.service import Service

NODE_PORT = 30800


@dataclass(frozen=True)
class Servers:
    """Servers by their names, and the address at which Pods and this machine reach them and the node."""

    host: str
    services: Mapping[str, Service]

    @property
    def api(self) -> str:
        return f"http://{self.host}:{NODE_PORT}"

    def restart(self, name: str) -> None:
        """Kill all processes of a server, and start it again."""
        self.services[name].kill()
        self.services[name].start()

    def values(self, shape: str) -> Json:
        """Return the values of the chart for a shape on these servers."""
        brokers = [server.address for name, server in self.services.items() if name.startswith("broker")]
        port = int(self.services["s3"].address.rpartition(":")[2])
        storage = {"ports": [{"port": port}], "to": [{"ipBlock": {"cidr": f"{self.host}/32"}}]}
        return {
            "shape": shape,
            "engines": {
                "log": f"kafka://{','.join(brokers)}/steelyard",
                "accounts": self.services["postgresql"].address,
                "view": self.services["mongodb"].address,
                "storage": "s3://steelyard/storage",
                "backup": "s3://steelyard/backup",
                "secret": "steelyard-engines",
                "storageSecret": "steelyard-store",
            },
            "api": {"publicUrl": self.api, "service": {"type": "NodePort", "nodePort": NODE_PORT}},
            "work": {"egress": [storage]},
        }

    def make_secrets(self, cluster: Cluster) -> None:
        """Make the Secrets that the values name, as the chart's page says."""
        opened = client_environment(self.services["s3"])
        for name, data in (
            ("steelyard-engines", dict(opened)),
            ("steelyard-store", {"credentials": json.dumps(opened)}),
        ):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
            cluster.kubectl("create", "-f", "-", stdin=json.dumps(secret))


@contextmanager
def servers(cluster: Cluster) -> Iterator[Servers]:
    """Servers in the network of the cluster, which a link joins to this machine's own. Raises Missing."""
    with (
        link(network_holder(cluster.kubeconfig), silent=False) as network,
        together.services(dict.fromkeys(together.ENGINES, network.place)) as services,
    ):
        yield Servers(network.host, services)
