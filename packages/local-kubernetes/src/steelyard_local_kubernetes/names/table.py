"""Names from Services and their EndpointSlices: which names have which addresses, and which Pods answer on an
address of a Service or a port of the machine.

Pure; `run.py` feeds it from informers and hands the results to the hosts file and the forwarders.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_labels, read_spec, read_status
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.pod_traits import host_name

HOST_IP = "127.0.0.1"
SERVICE_NAME = "kubernetes.io/service-name"

Address = tuple[str, int]
Forwards = Mapping[Address, tuple[Address, ...]]
Entry = tuple[str, tuple[str, ...]]  # an address and its names


@dataclass(frozen=True)
class Table:
    """The names of all Services, and for each address and port that leads to one the ready addresses behind it."""

    entries: tuple[Entry, ...]
    forwards: Forwards
    own: Mapping[
        str, tuple[Entry, ...]
    ]  # by namespace, the names that need none: short ones, and Pods' host names
    datagrams: Forwards = field(default_factory=dict)  # ports of UDP
    # Where one client is to reach one Pod, and the seconds after which it may be another.
    affinity: Mapping[Address, float] = field(default_factory=dict)
    # Those of the API's own Service. Pods find the API without it, so it is not reported that it cannot listen.
    spare: frozenset[Address] = frozenset()


def table(
    services: Iterable[Json],
    slices: Iterable[Json],
    pods: Iterable[Json] = (),
    outside: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Table:
    """Return the table. `outside` has the addresses of names outside the cluster, for Services of type ExternalName."""
    by_service: dict[tuple[str, str], list[Json]] = {}
    for slice_ in slices:
        name = read_labels(slice_).get(SERVICE_NAME, "")
        by_service.setdefault((slice_["metadata"]["namespace"], name), []).append(slice_)
    entries: list[Entry] = []
    forwards: dict[str, dict[Address, tuple[Address, ...]]] = {"TCP": {}, "UDP": {}}
    affinity: dict[Address, float] = {}
    spare: set[Address] = set()
    short, others = _HostNames(), []
    for service in services:
        own = by_service.get((service["metadata"]["namespace"], service["metadata"]["name"]), [])
        address = service["spec"].get("clusterIP")
        if external_name(service):
            others.append(service)
            continue
        if address and address != "None":
            addresses = [(address, names(service))]
            for protocol, known_fronts in forwards.items():
                fronts = _forwards(service, address, own, protocol)
                known_fronts.update(fronts)
                affinity |= dict.fromkeys(fronts, _affinity(service)) if _affinity(service) else {}
                spare |= fronts.keys() if is_of_the_api(service) else set()
        elif address == "None":
            addresses = _headless(service, own)
        else:
            continue
        entries.extend(addresses)
        for at, known in addresses:
            short.add(service["metadata"]["namespace"], at, known[-1].rpartition(".")[0])
    for alias in _aliases(others, entries, outside):
        entries.append(alias)
        short.add_name(alias)
    for pod in pods:
        if address := pod_address(pod):
            short.add_pod(pod["metadata"]["namespace"], address, host_name(pod))
            for protocol, known_fronts in forwards.items():
                known_fronts.update(_host_ports(pod, address, protocol))
    shown = tuple(sorted(set(entries)))
    return Table(shown, forwards["TCP"], short.entries(), forwards["UDP"], affinity, frozenset(spare))


def is_of_the_api(service: Json) -> bool:
    """Return whether it is the API server's own Service, which is always there."""
    return (service["metadata"]["namespace"], service["metadata"]["name"]) == ("default", "kubernetes")


def external_name(service: Json) -> str:
    """The name that a Service of type ExternalName stands for; empty for all others."""
    spec = service["spec"]
    if spec.get("type") != "ExternalName":
        return ""
    return str(spec.get("externalName") or "").removesuffix(".").lower()


def is_of_a_service(name: str) -> bool:
    return name.endswith((".svc", ".svc.cluster.local"))


def _aliases(
    services: list[Json], entries: list[Entry], outside: Mapping[str, tuple[str, ...]]
) -> Iterator[Entry]:
    """Yield the names of Services that stand for other names: those of other Services, or names outside."""
    known: dict[str, set[str]] = {}
    for address, called in entries:
        for name in called:
            known.setdefault(name, set()).add(address)
    left = services
    # One alias may name another: each round resolves those whose target the last one has.
    while left:
        later = []
        for service in left:
            name = external_name(service)
            addresses = known.get(name) or set(outside.get(name, ()))
            if not addresses:
                later.append(service)
                continue
            for own in names(service):
                known.setdefault(own, set()).update(addresses)
            for address in sorted(addresses):
                yield address, names(service)
        if len(later) == len(left):
            return
        left = later


def is_readable(obj: Json) -> bool:
    """Return whether `table` can read the object, a Service, an EndpointSlice or a Pod."""
    try:
        if "endpoints" in obj:
            ports = [{"port": 1, "name": port.get("name")} for port in sequence(obj, "ports")]
            service = {"metadata": obj["metadata"], "spec": {"ports": ports}}
            table([], [obj])
            _headless(service, [obj])
            _forwards(service, "", [obj], "TCP")
        elif "containers" in read_spec(obj):
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

    def add_name(self, entry: Entry) -> None:
        name, _, namespace = entry[1][-1].rpartition(".")
        self.add(namespace, entry[0], name)

    def add_pod(self, namespace: str, address: str, name: str) -> None:
        self._pods.setdefault((namespace, name), set()).add(address)

    def entries(self) -> dict[str, tuple[Entry, ...]]:
        by_namespace: dict[str, list[Entry]] = {}
        for (namespace, name), addresses in sorted((self._pods | self._services).items()):
            by_namespace.setdefault(namespace, []).extend((address, (name,)) for address in sorted(addresses))
        return {namespace: tuple(entries) for namespace, entries in by_namespace.items()}


def pod_address(pod: Json) -> str | None:
    """The Pod's own address while it may use it."""
    status = read_status(pod)
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


def _host_ports(pod: Json, address: str, protocol: str) -> dict[Address, tuple[Address, ...]]:
    """The machine's ports that lead to a Pod: on its loopback address, wherever the manifest says all addresses."""
    return {
        (_listening(port), int(port["hostPort"])): ((address, int(port["containerPort"])),)
        for container in list_containers(pod["spec"])
        for port in sequence(container, "ports")
        if port.get("hostPort") and (port.get("protocol") or "TCP") == protocol
    }


def _listening(port: Json) -> str:
    asked = str(port.get("hostIP") or "")
    # To listen on all addresses would open the Pod to the network, and take the port of every Pod.
    return asked if asked not in ("", "0.0.0.0") else HOST_IP


def _affinity(service: Json) -> float:
    """Seconds for which a client's next connection reaches the same Pod; 0 where any may answer."""
    if service["spec"].get("sessionAffinity") != "ClientIP":
        return 0.0
    return float(
        mapping(service["spec"], "sessionAffinityConfig", "clientIP").get("timeoutSeconds") or 10_800
    )


def _forwards(
    service: Json, address: str, slices: list[Json], protocol: str
) -> dict[Address, tuple[Address, ...]]:
    """The Service's own ports, and its ports of the machine."""
    result: dict[Address, tuple[Address, ...]] = {}
    for port in sequence(service["spec"], "ports"):
        if port.get("protocol", "TCP") != protocol:
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
        if port.get("nodePort"):
            result[(HOST_IP, port["nodePort"])] = tuple(sorted(behind))
    return result
