"""What the Services and their EndpointSlices mean: which names have which addresses, and who answers on a ClusterIP.

Pure; `run.py` feeds it from informers and hands the results to the hosts file and the forwarders.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.kube.resource import Json

SERVICE_NAME = "kubernetes.io/service-name"

Address = tuple[str, int]
Entry = tuple[str, tuple[str, ...]]  # an address and its names


@dataclass(frozen=True)
class Table:
    """The names of all Services, and for each address and port of a ClusterIP the ready addresses behind it."""

    entries: tuple[Entry, ...]
    forwards: Mapping[Address, tuple[Address, ...]]


def table(services: Iterable[Json], slices: Iterable[Json]) -> Table:
    by_service: dict[tuple[str, str], list[Json]] = {}
    for each in slices:
        name = (each["metadata"].get("labels") or {}).get(SERVICE_NAME, "")
        by_service.setdefault((each["metadata"]["namespace"], name), []).append(each)
    entries: list[Entry] = []
    forwards: dict[Address, tuple[Address, ...]] = {}
    for service in services:
        own = by_service.get((service["metadata"]["namespace"], service["metadata"]["name"]), [])
        address = service["spec"].get("clusterIP")
        if address and address != "None":
            entries.append((address, names(service)))
            forwards |= _forwards(service, address, own)
        elif address == "None":
            entries.extend(_headless(service, own))
    return Table(tuple(sorted(set(entries))), forwards)


def names(service: Json, host: str = "") -> tuple[str, ...]:
    """The names of a Service, or of one Pod's hostname below it, the full one first."""
    short = f"{host + '.' if host else ''}{service['metadata']['name']}.{service['metadata']['namespace']}"
    return f"{short}.svc.cluster.local", f"{short}.svc", short


def _ready(endpoint: Json) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _headless(service: Json, slices: list[Json]) -> list[Entry]:
    found: list[Entry] = []
    for endpoint in (each for one in slices for each in one.get("endpoints") or () if _ready(each)):
        for address in endpoint["addresses"]:
            found.append((address, names(service)))
            if endpoint.get("hostname"):
                found.append((address, names(service, endpoint["hostname"])))
    return found


def _forwards(service: Json, address: str, slices: list[Json]) -> dict[Address, tuple[Address, ...]]:
    result: dict[Address, tuple[Address, ...]] = {}
    for port in service["spec"].get("ports") or ():
        if port.get("protocol", "TCP") != "TCP":
            continue
        behind = {
            (ip, target["port"])
            for one in slices
            for target in one.get("ports") or ()
            if (target.get("name") or "") == (port.get("name") or "")
            for endpoint in one.get("endpoints") or ()
            if _ready(endpoint)
            for ip in endpoint["addresses"]
        }
        result[(address, port["port"])] = tuple(sorted(behind))
    return result
