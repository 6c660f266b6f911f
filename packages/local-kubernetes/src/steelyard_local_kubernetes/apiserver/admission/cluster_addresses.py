"""Cluster addresses of Services: admission asks for them, and `server.py` renews them at a start in another network.

A network of this machine may be another installation's after a stop, when all others were taken. The addresses of
Services in it would then lead to that one's Services. A real API server, whose network changes by hand alone, leaves
them and asks for new Services.
"""

import ipaddress
import logging

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.rules.service_types import is_external_name
from steelyard_local_kubernetes.apiserver.store import Store

_log = logging.getLogger(__name__)
_LISTED = 5  # Services that a line of the log names


class Addresses:
    """Cluster addresses: from one network, each Service's its own."""

    def __init__(self, store: Store, network: str) -> None:
        self._store = store
        self._network = ipaddress.ip_network(network)
        self._next = 1

    def assign(self, kind: ResourceType, service: Json, old: Json | None, options: Options) -> None:
        spec = service["spec"]
        if is_external_name(spec):
            return
        before = find_field(old, "spec", "clusterIP")
        if not spec.get("clusterIP"):
            # A headless Service stays one, and an address is kept, when a replacement does not name it. A new one is
            # the same in all attempts at one request: webhooks have been shown it.
            spec["clusterIP"] = before or options.keep("cluster address", self._free)
            if not before and spec["clusterIP"] in self._addresses_in_use():
                spec["clusterIP"] = self._free()
            spec["clusterIPs"] = [spec["clusterIP"]]
        # A Service that keeps its address is not asked whether that is free: it has it itself.
        elif not before and spec["clusterIP"] != "None":
            self._check(kind, service, spec["clusterIP"])

    def _addresses_in_use(self) -> set[str]:
        items = self._store.bucket("services").items()
        return {find_field(item.parse(), "spec", "clusterIP") or "" for item in items}

    def _free(self) -> str:
        """The next one that no Service has; those lately given back come last."""
        used, size = self._addresses_in_use(), self._network.num_addresses - 2
        for _ in range(size):
            address = str(self._network.network_address + 1 + self._next % size)
            # Round and round: a client that still holds the address of a Service
            # that is gone must not reach another one there.
            self._next += 1
            if address not in used:
                return address
        raise errors.Refusal(500, "InternalError", "failed to allocate a serviceIP: range is full")

    def _check(self, kind: ResourceType, service: Json, address: str) -> None:
        detail = ""
        try:
            if ipaddress.ip_address(address) not in self._network:
                detail = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. "
                detail += f"The range of valid IPs is {self._network}"
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        if not detail and address in self._addresses_in_use():
            detail = f"failed to allocate IP {address}: provided IP is already allocated"
        if detail:
            malformed = detail.startswith("must be")
            where, shown = ("spec.clusterIPs[0]", address) if malformed else ("spec.clusterIPs", [address])
            cause = errors.invalid(where, shown, detail)
            raise errors.is_invalid("", kind.kind, service["metadata"]["name"], [cause])

    def renew(self, apart: tuple[str, str]) -> None:
        """Give Services of an earlier network addresses of this one, and log which; the Service `apart` has its own."""
        changes = []
        for item in self._store.bucket("services").items():
            service = item.parse()
            before = find_field(service, "spec", "clusterIP")
            if item.key == apart or not self._is_foreign(before):
                continue
            address = self._free()
            service["spec"] |= {"clusterIP": address, "clusterIPs": [address]}
            self._store.put("services", service)
            changes.append(f"{'/'.join(item.key)} {before} -> {address}")
        if changes:
            listed = ", ".join(changes[:_LISTED])
            more = f" and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
            _log.warning(
                "the network of Services is %s now, since another installation may have the earlier one: "
                "new addresses for %s%s",
                self._network,
                listed,
                more,
            )

    def _is_foreign(self, address: object) -> bool:
        try:
            return ipaddress.ip_address(str(address)) not in self._network
        except ValueError:
            return False  # none, or a headless Service's
