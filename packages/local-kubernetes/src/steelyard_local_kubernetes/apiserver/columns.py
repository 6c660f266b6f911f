"""Cells of the built-in kinds' tables, as kubectl shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_conditions, read_status
from steelyard_kube.pods import conditions_by_type, is_ready
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.rules.common import expression_text

Cell = Callable[[Json, datetime], Any]
NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


@dataclass(frozen=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


def age(moment: str | None, now: datetime) -> str:
    """Format the time since `moment` in the one or two units that kubectl shows."""
    if not moment:
        return UNKNOWN
    return duration((now - parse_time(moment)).total_seconds())


def duration(seconds: float) -> str:
    whole = int(seconds)
    # Clocks differ: one second ahead is no time at all, as kubectl shows it.
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    years = f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
    return f"{days}d" if days < 730 else years


def at(*path: str, absent: Any = NONE) -> Cell:
    def cell(obj: Json, now: datetime) -> Any:
        value = find_field(obj, *path)
        return absent if value in (None, "") else value

    return cell


def count(*path: str) -> Cell:
    return lambda obj, now: len(find_field(obj, *path) or ())


def object_age(obj: Json, now: datetime) -> str:
    return age(find_field(obj, "metadata", "creationTimestamp"), now)


def containers(*path: str) -> list[Cell]:
    """Names and images of a template's containers, for -o wide."""

    def join_field(field: str) -> Cell:
        return lambda obj, now: ",".join(
            container.get(field) or "" for container in find_field(obj, *path, "containers") or ()
        )

    return [join_field("name"), join_field("image")]


def selector_text(selector: Json) -> str:
    """A label selector as text."""
    parts = [f"{key}={value}" for key, value in sorted(mapping(selector, "matchLabels").items())]
    parts += [expression_text(expression) for expression in sequence(selector, "matchExpressions")]
    return ",".join(parts)


def selector_cell(*path: str) -> Cell:
    """A label selector as text."""
    return lambda obj, now: selector_text(find_field(obj, *path) or {}) or NONE


selector = selector_cell("spec", "selector")


# ---- Pods


def _statuses(pod: Json) -> list[Json]:
    return find_field(pod, "status", "containerStatuses") or []


def pod_ready(pod: Json, now: datetime) -> str:
    ready = sum(bool(status.get("ready")) for status in _statuses(pod))
    return f"{ready}/{len(find_field(pod, 'spec', 'containers') or ())}"


def pod_status(pod: Json, now: datetime) -> str:
    """The phase, or why the Pod is not further."""
    status = read_status(pod)
    reason = str(status.get("reason") or status.get("phase") or "")
    starting = _starting(pod)
    reason = _running(pod, reason) if starting is None else starting
    # What has ended and waits for a finalizer has nothing left to terminate.
    if "deletionTimestamp" in pod["metadata"] and status.get("phase") not in ("Succeeded", "Failed"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _starting(pod: Json) -> str | None:
    """Return the state of the first init container that is not done."""
    every = find_field(pod, "status", "initContainerStatuses") or []
    total = len(find_field(pod, "spec", "initContainers") or ())
    for index, entry in enumerate(every):
        state = mapping(entry, "state")
        if "terminated" in state:
            if state["terminated"].get("exitCode") == 0:
                continue
            return "Init:" + _termination_text(state["terminated"])
        reason = find_field(state, "waiting", "reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{total}"
    return None


def _running(pod: Json, reason: str) -> str:
    running = False
    # As kubectl: the first container's trouble is shown, whatever comes after it.
    for status in reversed(_statuses(pod)):
        state = mapping(status, "state")
        if waiting := find_field(state, "waiting", "reason"):
            reason = waiting
        elif "terminated" in state:
            reason = _termination_text(state["terminated"])
        elif "running" in state and status.get("ready"):
            running = True
    # One container has ended and another runs: the Pod is not at its end.
    if reason == "Completed" and running:
        return "Running" if is_ready(pod) else "NotReady"
    return reason


def _termination_text(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode')}"


def pod_restarts(pod: Json, now: datetime) -> str:
    total = sum(status.get("restartCount") or 0 for status in _statuses(pod))
    last = max(
        (find_field(status, "lastState", "terminated", "finishedAt") or "" for status in _statuses(pod)),
        default="",
    )
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)


def readiness_gates(pod: Json, now: datetime) -> str:
    """Count the Pod's own conditions of readiness that are true."""
    gates = sequence(mapping(pod, "spec"), "readinessGates")
    conditions = conditions_by_type(pod)
    true = sum(conditions.get(gate.get("conditionType"), {}).get("status") == "True" for gate in gates)
    return f"{true}/{len(gates)}" if gates else NONE


# ---- others


_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def job_status(job: Json, now: datetime) -> str:
    """Name the Job's end; before it, its next state."""
    # The API takes conditions without a type, and this is the table of all Jobs.
    true = {condition.get("type") for condition in read_conditions(job) if condition.get("status") == "True"}
    if end := next((state for state in _JOB_ENDS if state in true), ""):
        return end
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((state for state in _JOB_STATES if state in true), "Running")


def job_completions(job: Json, now: datetime) -> str:
    done, completions = find_field(job, "status", "succeeded") or 0, find_field(job, "spec", "completions")
    if completions is not None:
        return f"{done}/{completions}"
    parallel = find_field(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def job_duration(job: Json, now: datetime) -> str:
    start, end = find_field(job, "status", "startTime"), find_field(job, "status", "completionTime")
    if not start:
        return ""
    until = parse_time(end) if end else now
    return duration((until - parse_time(start)).total_seconds())


def service_ports(service: Json, now: datetime) -> str:
    ports = find_field(service, "spec", "ports") or ()
    shown = [f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else port["port"] for port in ports]
    rows = zip(shown, ports, strict=True)
    return ",".join(f"{number}/{port.get('protocol', 'TCP')}" for number, port in rows) or NONE


def external_addresses(service: Json, now: datetime) -> str:
    """Addresses by which a Service is reached from outside."""
    spec = mapping(service, "spec")
    addresses = list(sequence(spec, "externalIPs"))
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            points = sequence(find_field(service, "status", "loadBalancer") or {}, "ingress")
            balanced = [str(point.get("ip") or point.get("hostname") or "") for point in points]
            return ",".join([*balanced, *addresses]) or "<pending>"
    return ",".join(addresses) or NONE


def node_status(node: Json, now: datetime) -> str:
    ready = conditions_by_type(node).get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if find_field(node, "spec", "unschedulable") else status


def node_roles(node: Json, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = find_field(node, "metadata", "labels") or {}
    return (
        ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or NONE
    )


def node_address(kind: str) -> Cell:
    def cell(node: Json, now: datetime) -> str:
        every = find_field(node, "status", "addresses") or ()
        addresses = (address.get("address") for address in every if address.get("type") == kind)
        return str(next(addresses, None) or NONE)

    return cell


def event_last(event: Json, now: datetime) -> str:
    series = find_field(event, "series", "lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime"), now)


def event_first(event: Json, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def event_object(event: Json, now: datetime) -> str:
    about = mapping(event, "involvedObject")
    return f"{(about.get('kind') or '').lower()}/{about.get('name') or ''}"


def event_source(event: Json, now: datetime) -> str:
    source = mapping(event, "source")
    name = source.get("component") or event.get("reportingComponent") or ""
    return f"{name}, {source['host']}" if source.get("host") else str(name)


def subjects(kind: str) -> Cell:
    """The names of a binding's subjects of one kind; accounts with their namespaces."""

    def cell(binding: Json, now: datetime) -> str:
        subjects = [subject for subject in sequence(binding, "subjects") if subject.get("kind") == kind]
        names = [
            f"{e.get('namespace', '')}/{e['name']}" if kind == "ServiceAccount" else e["name"]
            for e in subjects
        ]
        return ", ".join(names)

    return cell


def scale_target(autoscaler: Json, now: datetime) -> str:
    target = find_field(autoscaler, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind')}/{target.get('name')}"


def metric_target(metric: Json) -> str:
    """Return the target value of a metric; nothing here measures the actual one."""
    source = mapping(metric, (metric.get("type") or "").lower())
    target = mapping(source, "target")
    value = target.get("averageValue") or target.get("value")
    if (share := target.get("averageUtilization")) is not None:
        return f"{source.get('name')}: {UNKNOWN}/{share}%"
    shown = f"{UNKNOWN}/{value or '<auto>'}"
    return f"{source['name']}: {shown}" if metric.get("type") == "Resource" else shown


def slice_ports(obj: Json, now: datetime) -> str:
    ports = [str(port.get("port") or port.get("name") or "*") for port in sequence(obj, "ports")]
    return ",".join(ports) or "<unset>"


def slice_endpoints(obj: Json, now: datetime) -> str:
    every = [
        address for endpoint in sequence(obj, "endpoints") for address in sequence(endpoint, "addresses")
    ]
    shown = ",".join(every[:3])
    return f"{shown} + {len(every) - 3} more..." if len(every) > 3 else shown or "<unset>"
