"""Node ports: numbers of this machine's ports, each one Service's own. `admission/server.py` asks for them."""

import random
from collections.abc import Callable

from steelyard_common.ports import port_is_free
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_spec
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.rules.service_types import needs_health_check_port, needs_node_ports
from steelyard_local_kubernetes.apiserver.store import Store

FIRST, LAST = 30_000, 32_767
_FIRST_CHOSEN = 30_086
"""Kubernetes leaves the range's first 86 ports to manifests that name one ("static band"), so that none is taken."""
_TRIES = 200
_DRY_RUN_PORT = LAST + 2  # as a real server shows it: none of the range is taken


class NodePorts:
    """Ports from Kubernetes' range; other programs' ports of the machine are left out."""

    def __init__(self, store: Store, is_free: Callable[[int], bool] = port_is_free) -> None:
        self._store, self._is_free = store, is_free

    def assign(self, kind: ResourceType, service: Json, old: Json | None, options: Options) -> None:
        """Give each port of the Service that needs a node port one, and check those that it names."""
        spec, before = service["spec"], _service_ports(read_spec(old))
        health = spec.get("healthCheckNodePort") or 0
        named = _service_ports(spec)
        if not named and not needs_node_ports(spec) and not needs_health_check_port(spec):
            return
        used = self._ports_in_use(service)
        for index, port in enumerate(sequence(spec, "ports")):
            number = port.get("nodePort") or 0
            if number and number not in before:
                self._check(kind, service, f"spec.ports[{index}].nodePort", number, used)
        if health and health not in before:
            self._check(kind, service, "spec.healthCheckNodePort", health, used)
        used |= named
        if needs_node_ports(spec):
            self._fill(sequence(spec, "ports"), used, options)
        if needs_health_check_port(spec) and not health:
            spec["healthCheckNodePort"] = self._free(used, options, "health")

    def _fill(self, ports: list[Json], used: set[int], options: Options) -> None:
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                continue
            # One number for both protocols of one port, as on a real server.
            twin = (
                other.get("nodePort")
                for other in ports[:index]
                if other["port"] == port["port"] and other.get("protocol") != port.get("protocol")
            )
            port["nodePort"] = next(twin, None) or self._free(used, options, str(index))
            used.add(port["nodePort"])

    def _free(self, used: set[int], options: Options, name: str) -> int:
        if options.dry_run:
            return _DRY_RUN_PORT
        for attempt in range(_TRIES):
            # The same in all attempts at one request: webhooks have been shown it.
            text = options.keep(f"node port {name} {attempt}", _any_port)
            if int(text) not in used and self._is_free(int(text)):
                return int(text)
        raise errors.Refusal(500, "InternalError", "failed to allocate a nodePort: range is full")

    def _ports_in_use(self, service: Json) -> set[int]:
        """Return the node ports of all other Services."""
        mine = service["metadata"].get("uid")
        used: set[int] = set()
        for item in self._store.bucket("services").items():
            if item.uid != mine:
                used |= _service_ports(item.parse()["spec"])
        return used

    def _check(self, kind: ResourceType, service: Json, path: str, number: int, used: set[int]) -> None:
        detail = "provided port is already allocated" if number in used else ""
        if not FIRST <= number <= LAST:
            detail = f"provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}"
        if detail:
            cause = errors.invalid(path, number, detail)
            raise errors.is_invalid("", kind.kind, service["metadata"]["name"], [cause])


def _any_port() -> str:
    return str(random.SystemRandom().randint(_FIRST_CHOSEN, LAST))


def _service_ports(spec: Json) -> set[int]:
    numbers = {port.get("nodePort") or 0 for port in sequence(spec, "ports")}
    return (numbers | {spec.get("healthCheckNodePort") or 0}) - {0}
