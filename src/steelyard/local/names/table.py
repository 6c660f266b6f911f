"""Names from Services and their EndpointSlices: which names have which addresses, and which Pods answer on a
ClusterIP.

Pure; `run.py` feeds it from informers and hands the results to the hosts file and the forwarders.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.kube.objects import labels_of, spec_of, status_of
from steelyard.kube.pods import containers_of
from steelyard.local.kubelet.network import host_name
from steelyard.types import Json, mapping, sequence

HOST_IP = "127.0.0.1"
SERVICE_NAME = "kubernetes.io/service-name"

Address = tuple[str, int]
Entry = tuple[str, tuple[str, ...]]  # an address and its names


@dataclass(frozen=True)
class Table:
    """The names of all Services, and for each address and port of a ClusterIP the ready addresses behind it."""

    entries: tuple[Entry, ...]
    forwards: Mapping[Address, tuple[Address, ...]]
    own: Mapping[
        str, tuple[Entry, ...]
    ]  # by namespace, the names that need none: short ones, and Pods' host names


def table(services: Iterable[Json], slices: Iterable[Json], pods: Iterable[Json] = ()) -> Table:
    by_service: dict[tuple[str, str], list[Json]] = {}
    for slice_ in slices:
        name = labels_of(slice_).get(SERVICE_NAME, "")
        by_service.setdefault((slice_["metadata"]["namespace"], name), []).append(slice_)
    entries: list[Entry] = []
    forwards: dict[Address, tuple[Address, ...]] = {}
    short = _HostNames()
    for service in services:
        own = by_service.get((service["metadata"]["namespace"], service["metadata"]["name"]), [])
        address = service["spec"].get("clusterIP")
        if address and address != "None":
            addresses = [(address, names(service))]
            forwards |= _forwards(service, address, own)
        elif address == "None":
            addresses = _headless(service, own)
        else:
            continue
        entries.extend(addresses)
        for at, known in addresses:
            short.add(service["metadata"]["namespace"], at, known[-1].rpartition(".")[0])
    for pod in pods:
        if address := address_of(pod):
            short.add_pod(pod["metadata"]["namespace"], address, host_name(pod))
            # A Service has its own address: no port of the machine is one of a Service's.
            forwards |= _host_ports(pod, address)
    return Table(tuple(sorted(set(entries))), forwards, short.entries())


def is_readable(obj: Json) -> bool:
    """Tell whether `table` can read the object, a Service, an EndpointSlice or a Pod."""
    try:
        if "endpoints" in obj:
            ports = [{"port": 1, "name": port.get("name")} for port in sequence(obj, "ports")]
            service = {"metadata": obj["metadata"], "spec": {"ports": ports}}
            table([], [obj])
            _headless(service, [obj])
            _forwards(service, "", [obj])
        elif "containers" in spec_of(obj):
            table([], [], [obj])
        else:
            table([obj], [])
    except Exception:  # noqa: BLE001 - whatever it holds
        return False
    return True


class _HostNames:
    """Names that are good inside a namespace; a Service's goes before a Pod's host name."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, str], set[str]] = {}
        self._pods: dict[tuple[str, str], set[str]] = {}

    def add(self, namespace: str, address: str, name: str) -> None:
        self._services.setdefault((namespace, name), set()).add(address)

    def add_pod(self, namespace: str, address: str, name: str) -> None:
        self._pods.setdefault((namespace, name), set()).add(address)

    def entries(self) -> dict[str, tuple[Entry, ...]]:
        by_namespace: dict[str, list[Entry]] = {}
        for (namespace, name), addresses in sorted((self._pods | self._services).items()):
            by_namespace.setdefault(namespace, []).extend((address, (name,)) for address in sorted(addresses))
        return {namespace: tuple(entries) for namespace, entries in by_namespace.items()}


def address_of(pod: Json) -> str | None:
    """The Pod's own address while it may use it."""
    status = status_of(pod)
    if pod["spec"].get("hostNetwork") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    return status.get("podIP")


def names(service: Json, host: str = "") -> tuple[str, ...]:
    """The names of a Service, or of one Pod's hostname below it, the full one first."""
    short = f"{host + '.' if host else ''}{service['metadata']['name']}.{service['metadata']['namespace']}"
    return f"{short}.svc.cluster.local", f"{short}.svc", short


def _ready(endpoint: Json) -> bool:
    return mapping(endpoint, "conditions").get("ready") is not False


def _headless(service: Json, slices: list[Json]) -> list[Entry]:
    entries: list[Entry] = []
    for endpoint in (
        endpoint for one in slices for endpoint in sequence(one, "endpoints") if _ready(endpoint)
    ):
        for address in endpoint["addresses"]:
            entries.append((address, names(service)))
            if endpoint.get("hostname"):
                entries.append((address, names(service, endpoint["hostname"])))
    return entries


def _host_ports(pod: Json, address: str) -> dict[Address, tuple[Address, ...]]:
    """The machine's ports that lead to a Pod: on its loopback address, wherever the manifest says all addresses."""
    return {
        (_listening(port), int(port["hostPort"])): ((address, int(port["containerPort"])),)
        for container in containers_of(pod["spec"])
        for port in sequence(container, "ports")
        if port.get("hostPort") and (port.get("protocol") or "TCP") == "TCP"
    }


def _listening(port: Json) -> str:
    asked = str(port.get("hostIP") or "")
    # To listen on all addresses would open the Pod to the network, and take the port of every Pod.
    return asked if asked not in ("", "0.0.0.0") else HOST_IP


def _forwards(service: Json, address: str, slices: list[Json]) -> dict[Address, tuple[Address, ...]]:
    result: dict[Address, tuple[Address, ...]] = {}
    for port in sequence(service["spec"], "ports"):
        if port.get("protocol", "TCP") != "TCP":
            continue
        behind = {
            (ip, target["port"])
            for one in slices
            for target in sequence(one, "ports")
            if (target.get("name") or "") == (port.get("name") or "")
            for endpoint in sequence(one, "endpoints")
            if _ready(endpoint)
            for ip in endpoint["addresses"]
        }
        result[(address, port["port"])] = tuple(sorted(behind))
    return result
