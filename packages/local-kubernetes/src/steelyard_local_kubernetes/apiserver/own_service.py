"""The Service `kubernetes` in `default`, by whose name programs find this server; `server.py` begins it at each start.

The server's port may be another one after a start: the Service, its EndpointSlice and its Endpoints say which it is
now. They come back when a user deletes or changes them, as on a real server.
"""

import ipaddress
import logging

from steelyard_common.types import Json, copy_value
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Deletion, Options
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.ring import Change

_log = logging.getLogger(__name__)
NAMESPACE, NAME, PORT = "default", "kubernetes", 443
HOSTS = tuple(f"kubernetes{rest}" for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local"))
"""Names that lead to the server in Pods."""
_SERVICES, _SLICES, _ENDPOINTS = "services", "endpointslices.discovery.k8s.io", "endpoints"


def service_address(network: str) -> str:
    """Return the address of the Service: the first one of the network, as on a real server."""
    return str(ipaddress.ip_network(network)[1])


class OwnService:
    """Follows the store's commits, so that the objects are there again before a deletion is answered."""

    def __init__(
        self, objects: Objects, registry: Registry, network: str, listening: tuple[str, int]
    ) -> None:
        self._objects, self._registry = objects, registry
        host, port = ipaddress.ip_address(listening[0]), listening[1]
        if host.is_unspecified:
            host = ipaddress.ip_address("::1" if host.version == 6 else "127.0.0.1")
        self._wanted = _objects(str(host), host.version, port)
        self._network = ipaddress.ip_network(network)
        self._address = service_address(network)
        self._refusals: set[str] = set()
        objects.store.listeners.append(self._on_commit)

    def complete(self) -> None:
        """Write what is missing, and what says another port than the server has."""
        for bucket, desired in self._wanted.items():
            try:
                self._ensure(bucket, desired)
            except Refusal as refusal:
                # A quota of the namespace, for one. It is said once: each deletion of an object would repeat it.
                if refusal.message not in self._refusals:
                    self._refusals.add(refusal.message)
                    _log.warning("%s %s/%s cannot be written: %s", bucket, NAMESPACE, NAME, refusal.message)

    def _on_commit(self, changes: list[Change]) -> None:
        if any(change.kind in self._wanted and change.new.key == (NAMESPACE, NAME) for change in changes):
            self.complete()

    def _ensure(self, bucket: str, desired: Json) -> None:
        kind, item = self._registry.storage_kind(bucket), self._objects.store.get(bucket, (NAMESPACE, NAME))
        if item is None:
            self._create(bucket, desired)
            return
        current = item.parse()
        if bucket == _SERVICES and not self._has_address(current) and not item.deleting:
            # An address cannot be changed. By the commit of the deletion the Service is made again.
            self._objects.delete(kind, item, Deletion(), Options())
            return
        content = _with_content(current, desired)
        # One that waits for a finalizer is not written: it is made again when it has gone.
        if content != current and not item.deleting:
            self._objects.update(kind, item, content, Options())

    def _has_address(self, service: Json) -> bool:
        """Return whether its address is of this network; one of an earlier start may be another server's now."""
        try:
            return ipaddress.ip_address(service["spec"].get("clusterIP") or "") in self._network
        except ValueError:
            return False

    def _create(self, bucket: str, desired: Json) -> None:
        kind = self._registry.storage_kind(bucket)
        if bucket == _SERVICES:
            addressed = copy_value(desired)
            addressed["spec"]["clusterIP"] = self._address
            try:
                self._objects.create(kind, NAMESPACE, addressed, Options())
                return
            except Refusal:
                pass  # another Service has the address since before this one was made, or none may be made
        self._objects.create(kind, NAMESPACE, copy_value(desired), Options())


def _objects(host: str, family: int, port: int) -> dict[str, Json]:
    """Return the three objects by their bucket, with all fields that are written."""
    ports = [{"name": "https", "port": PORT, "protocol": "TCP", "targetPort": port}]
    behind = [{"name": "https", "port": port, "protocol": "TCP"}]
    labels = {"component": "apiserver", "provider": "kubernetes"}
    own: Json = {"metadata": {"name": NAME, "labels": labels}, "spec": {"type": "ClusterIP", "ports": ports}}
    # A slice of its own is there already: without the label a controller would make one of the Endpoints, too.
    skipped = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    return {
        _SERVICES: own,
        _ENDPOINTS: {
            "metadata": {"name": NAME, "labels": skipped},
            "subsets": [{"addresses": [{"ip": host}], "ports": behind}],
        },
        _SLICES: {
            "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": f"IPv{family}",
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
            "ports": behind,
        },
    }


def _with_content(current: Json, desired: Json) -> Json:
    """Return the object with the desired content; what others have added to its metadata and its spec stays."""
    content: Json = copy_value(current)
    for name, value in desired.items():
        if name == "spec":
            content["spec"] |= copy_value(value)
        elif name != "metadata":
            content[name] = copy_value(value)
    return content
