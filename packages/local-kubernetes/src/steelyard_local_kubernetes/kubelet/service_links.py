"""Variables with the addresses of Services, which containers find as on a cluster (`enableServiceLinks`)."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from steelyard_common.types import Json, sequence
from steelyard_kube.informer import object_key
from steelyard_kube.objects import read_spec
from steelyard_local_kubernetes.kubelet.env import Room

API = ("default", "kubernetes")
"""The API server's own Service, whose variables all Pods get, whether or not they have a token for it."""


def select_services(pod: Json, of_namespace: Iterable[Json], api: Json | None) -> list[Json]:
    """Return the Services whose addresses the Pod is given; `api` is the API server's own."""
    given = of_namespace if pod["spec"].get("enableServiceLinks") is not False else ()
    services = [service for service in given if object_key(service) != API]
    return services if api is None else [*services, api]


def variables_of_api(api: tuple[str, int] | None) -> dict[str, str]:
    """Return the variables by which programs in a Pod find the API; `api` is where the server itself answers.

    Its Service needs the right to port 443, which its user may not have.
    """
    if api is None:
        return {}
    host, port = api
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
    }


def variables(services: Iterable[Json], room: Room | None = None) -> dict[str, str]:
    """Return the variables of all Services that have an address.

    Raises TooLarge as soon as they take more than `room` has: each Pod of a namespace gets those of each Service.
    """
    result: dict[str, str] = {}
    room = room or Room()
    for service in services:
        # One that an older version has stored must not keep its namespace's Pods from starting. Who makes the table of
        # names reports it.
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            # Whole, so that one which cannot be read gives no variable at all.
            for name, value in dict(_variables(service)).items():
                room.take(f"variables of Services (enableServiceLinks): {name}", f"{name}={value}")
                result[name] = value
    return result


def _variables(service: Json) -> Iterator[tuple[str, str]]:
    spec = read_spec(service)
    address, ports = str(spec.get("clusterIP") or ""), sequence(spec, "ports")
    if address in ("", "None") or not ports:
        return
    prefix = _variable(service["metadata"]["name"])
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0]["port"])
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_variable(port['name'])}", str(port["port"])
    host = f"[{address}]" if ":" in address else address
    for number, port in enumerate(ports):
        protocol = str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{host}:{port['port']}"
        # The form of Docker's links, which older programs read.
        if number == 0:
            yield f"{prefix}_PORT", url
        own = f"{prefix}_PORT_{port['port']}_{protocol}"
        yield own, url
        yield f"{own}_PROTO", protocol.lower()
        yield f"{own}_PORT", str(port["port"])
        yield f"{own}_ADDR", address


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
