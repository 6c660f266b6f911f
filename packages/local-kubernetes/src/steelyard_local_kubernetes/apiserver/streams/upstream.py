"""Targets of `pods/proxy` and `services/proxy`: the program of a Pod to which a request is passed on.

Both name their object as `[scheme:]name[:port]`. `passing.py` carries the request and the answer.
"""

import random
from dataclasses import dataclass

from yarl import URL

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.rest import Target
from steelyard_local_kubernetes.apiserver.streams.ports import is_port

_SERVICE_NAME = "kubernetes.io/service-name"
_SLICES = "endpointslices.discovery.k8s.io"


@dataclass(frozen=True)
class Upstream:
    """One program; `scheme` is http or https."""

    scheme: str
    ip: str
    port: int

    def url(self, raw_path: str, raw_query: str) -> URL:
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        query = f"?{raw_query}" if raw_query else ""
        return URL(f"{self.scheme}://{host}:{self.port}{raw_path}{query}", encoded=True)


def find_upstream(objects: Objects, target: Target) -> Upstream:
    """Return the program that a target of the subresource `proxy` means; raises Refusal."""
    scheme, name, port = _parts(target.name, target.kind.kind.lower())
    obj = objects.item(target.kind, (target.key[0], name)).parse()
    if target.kind.bucket == "pods":
        return _pod_upstream(scheme, obj, port)
    slices = [
        item.parse()
        for item in objects.store.bucket(_SLICES).items()
        if item.namespace == target.key[0] and item.labels.get(_SERVICE_NAME) == name
    ]
    return _service_upstream(scheme, obj, port, slices, target.name)


def _parts(named: str, kind: str) -> tuple[str, str, str]:
    match named.split(":"):
        case [name] if name:
            return "http", name, ""
        case [name, port] if name:
            return "http", name, port
        case ["" | "http" | "https" as scheme, name, port] if name:
            return scheme or "http", name, port
    raise errors.bad_request(f'invalid {kind} request "{named}"')


def _pod_upstream(scheme: str, pod: Json, port: str) -> Upstream:
    ports = [row for container in list_containers(pod["spec"]) for row in sequence(container, "ports")]
    number = port or str(ports[0]["containerPort"] if ports else 443 if scheme == "https" else 80)
    ip = find_field(pod, "status", "podIP")
    if not ip:
        raise errors.bad_request("address not allowed")
    if not is_port(number):
        raise errors.bad_request(f'invalid pod request "{pod["metadata"]["name"]}:{port}"')
    return Upstream(scheme, str(ip), int(number))


def _service_upstream(scheme: str, service: Json, port: str, slices: list[Json], asked: str) -> Upstream:
    name = service["metadata"]["name"]
    port_name = port
    if port.isdecimal():
        numbers = [row for row in sequence(service["spec"], "ports") if row["port"] == int(port)]
        if not numbers:
            raise _unavailable(f'no service port {int(port)} found for service "{name}"')
        port_name = numbers[0].get("name") or ""
    ready = [
        (str(address), int(row["port"]))
        for one in slices
        for row in sequence(one, "ports")
        if (row.get("name") or "") == port_name
        for endpoint in sequence(one, "endpoints")
        if mapping(endpoint, "conditions").get("ready") is not False
        for address in endpoint["addresses"]
    ]
    if not ready:
        # A real server names the Service alone as long as it has no endpoints at all.
        some = any(sequence(one, "endpoints") for one in slices)
        raise _unavailable(f'no endpoints available for service "{asked if some else name}"')
    return Upstream(scheme, *random.choice(ready))


def _unavailable(text: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", text)
