"""Cells of kinds about the network, admission, access and devices. `rendering.py` puts them into rows."""

from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_conditions, read_status
from steelyard_local_kubernetes.apiserver.columns import NONE, UNSET, Cell, duration
from steelyard_local_kubernetes.apiserver.kinds import find_field

_SHOWN = 3  # entries of a long list


def _first(entries: list[str], empty: str) -> str:
    shown = ",".join(entries[:_SHOWN])
    return f"{shown} + {len(entries) - _SHOWN} more..." if len(entries) > _SHOWN else shown or empty


def component(field: str) -> Cell:
    """The health of a part of the control plane."""

    def cell(obj: Json, now: datetime) -> str:
        conditions = (entry for entry in sequence(obj, "conditions") if entry.get("type") == "Healthy")
        condition: Json = next(conditions, {})
        if field != "status":
            return str(condition.get(field) or "")
        return {"True": "Healthy", "False": "Unhealthy"}.get(str(condition.get("status")), "Unknown")

    return cell


# ---- the network


def endpoints(obj: Json, now: datetime) -> str:
    entries = []
    for subset in sequence(obj, "subsets"):
        hosts = [address["ip"] for address in sequence(subset, "addresses")]
        ports = sequence(subset, "ports")
        if not ports:
            entries += hosts
        for port in ports:
            entries += [
                f"[{host}]:{port['port']}" if ":" in host else f"{host}:{port['port']}" for host in hosts
            ]
    return _first(entries, NONE)


def ingress_hosts(obj: Json, now: datetime) -> str:
    return _first([rule["host"] for rule in sequence(obj["spec"], "rules") if rule.get("host")], "*")


def ingress_address(obj: Json, now: datetime) -> str:
    points = sequence(mapping(read_status(obj), "loadBalancer"), "ingress")
    return ",".join(str(point.get("ip") or point.get("hostname") or "") for point in points)


def ingress_ports(obj: Json, now: datetime) -> str:
    return "80, 443" if sequence(obj["spec"], "tls") else "80"


def class_parameters(obj: Json, now: datetime) -> str:
    parameters = find_field(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind')}{group}/{parameters.get('name')}"


def address_parent(obj: Json, now: datetime) -> str:
    parent = find_field(obj, "spec", "parentRef") or {}
    parts = (parent.get(name) for name in ("group", "resource", "namespace", "name"))
    return "/".join(str(part) for part in parts if part)


# ---- extensions of the API


def api_service(obj: Json, now: datetime) -> str:
    service = find_field(obj, "spec", "service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def api_available(obj: Json, now: datetime) -> str:
    for condition in read_conditions(obj):
        if condition.get("type") == "Available":
            status = str(condition.get("status"))
            return status if status == "True" else f"{status} ({condition.get('reason')})"
    return "Unknown"


def policy_parameters(obj: Json, now: datetime) -> str:
    kind = find_field(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET


def binding_parameters(obj: Json, now: datetime) -> str:
    reference = find_field(obj, "spec", "paramRef")
    if not reference:
        return UNSET
    name = reference.get("name") or "*"
    return f"{reference['namespace']}/{name}" if reference.get("namespace") else str(name)


# ---- certificates


def request_duration(obj: Json, now: datetime) -> str:
    seconds = find_field(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else duration(seconds)


def request_state(obj: Json, now: datetime) -> str:
    kinds = [condition.get("type") for condition in read_conditions(obj)]
    # As kubectl shows it: a denial is shown rather than an approval.
    state = next((kind for kind in ("Denied", "Approved") if kind in kinds), "Pending")
    parts = [state, *(["Failed"] if "Failed" in kinds else [])]
    return ",".join([*parts, *(["Issued"] if read_status(obj).get("certificate") else [])])


# ---- flow control and devices


def queue_field(name: str) -> Cell:
    def cell(obj: Json, now: datetime) -> str:
        value = find_field(obj, "spec", "limited", "limitResponse", "queuing", name)
        return NONE if value is None else str(value)

    return cell


def concurrency_shares(obj: Json, now: datetime) -> str:
    for name in ("limited", "exempt"):
        if (value := find_field(obj, "spec", name, "nominalConcurrencyShares")) is not None:
            return str(value)
    return NONE


def missing_level(obj: Json, now: datetime) -> str:
    for condition in read_conditions(obj):
        if condition.get("type") == "Dangling":
            return str(condition.get("status"))
    return "?"


def claim_state(obj: Json, now: datetime) -> str:
    states = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    status = read_status(obj)
    if status.get("allocation") is None:
        return ",".join([*states, *([] if states else ["pending"])])
    reserved = ["reserved"] if sequence(status, "reservedFor") else []
    return ",".join([*states, "allocated", *reserved])
