"""Pods: what a Pod's spec is completed with, and its faults. Workloads use both for their templates."""

from collections.abc import Callable

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_spec, read_status
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.apiserver.amounts import Amounts, add, amounts, texts
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import key_causes, labels_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.containers import (
    complete_container,
    container_causes,
    host_port_causes,
    init_container_causes,
    running_causes,
    whitespace_causes,
)
from steelyard_local_kubernetes.apiserver.rules.fields import (
    MAX_INT32,
    at_most,
    between,
    duplicate,
    ip_causes,
    is_ip,
)
from steelyard_local_kubernetes.apiserver.rules.placement import AFFINITY, GATES, SPREAD, TOLERATIONS
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import name_warnings, pod_warnings
from steelyard_local_kubernetes.apiserver.rules.resources import is_of_pods, pod_resource_causes
from steelyard_local_kubernetes.apiserver.rules.scheduling import preemption_causes
from steelyard_local_kubernetes.apiserver.rules.table import (
    Rule,
    causes_by,
    choice,
    if_named,
    items,
    need,
    number,
    part,
    values,
)
from steelyard_local_kubernetes.apiserver.rules.volumes import (
    claim_name_causes,
    complete_volume,
    volume_causes,
)

RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_DNS_POLICIES = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEMS = ["linux", "windows"]
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
MOST_CONTAINERS = 100
"""Stricter than a real server: each container of a list is at least two processes of this machine."""
_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def complete_pod_spec(spec: Json) -> None:
    """The defaults of a Pod's spec, in a template too."""
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    defaults(
        spec,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        # Two names of one field, of which the second is the older: clients read either.
        spec |= {"serviceAccountName": account, "serviceAccount": account}
    for container in (*list_containers(spec), *sequence(spec, "ephemeralContainers")):
        complete_container(container)
    for container in sequence(spec, "containers"):
        # A policy of its own is for init containers; for others it is behind a gate that is off.
        container.pop("restartPolicy", None)
    _drop_image_volumes(spec)
    for volume in sequence(spec, "volumes"):
        complete_volume(volume)


def _drop_image_volumes(spec: Json) -> None:
    """Volumes of images are behind a gate that is off: a real server drops them with their mounts."""
    dropped = {volume.get("name") for volume in sequence(spec, "volumes") if volume.get("image") is not None}
    if not dropped:
        return
    holders = [(spec, "volumes"), *((container, "volumeMounts") for container in list_containers(spec))]
    for holder, field in holders:
        kept = [item for item in sequence(holder, field) if item.get("name") not in dropped]
        holder.pop(field, None)
        if kept:
            holder[field] = kept


def pod_spec_causes(spec: Json, path: str) -> list[Cause]:
    """Return the faults of a Pod's or a template's spec."""
    for field in _CONTAINERS:
        if many := at_most(f"{path}.{field}", len(sequence(spec, field)), MOST_CONTAINERS):
            return many
    causes, volumes = volume_causes(spec, path)
    causes += claim_name_causes(spec, path)
    containers = sequence(spec, "containers")
    if not containers:
        causes.append(missing_value(f"{path}.containers"))
    grace, policy = spec.get("terminationGracePeriodSeconds") or 0, spec.get("restartPolicy") or ""
    names: set[str] = set()
    for field in _CONTAINERS:
        for index, container in enumerate(sequence(spec, field)):
            where, name = f"{path}.{field}[{index}]", container.get("name") or ""
            causes += container_causes(container, where, volumes, policy)
            if name in names:
                causes.append(duplicate(f"{where}.name", name))
            names.add(name)
            sidecar = field == "initContainers" and container.get("restartPolicy") == "Always"
            if field == "containers" or sidecar:
                causes += running_causes(container, where, grace)
            elif field == "initContainers":
                causes += init_container_causes(container, where)
        causes += host_port_causes(containers, f"{path}.containers") if field == "containers" else []
    return causes + pod_resource_causes(spec, path) + causes_by(_SPEC, spec, path)


def _process_causes(spec: Json, path: str) -> list[Cause]:
    # A real server holds both in its form of the security context, and names them there.
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        return [invalid(f"{path}.securityContext.shareProcessNamespace", True, text)]
    return []


def _dns_causes(spec: Json, path: str) -> list[Cause]:
    if spec.get("dnsPolicy") != "None":
        return []
    if spec.get("dnsConfig") is None:
        return [missing_value(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")]
    text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
    return need("nameservers", detail=text)(spec["dnsConfig"], f"{path}.dnsConfig")


def _host_network_causes(spec: Json, path: str) -> list[Cause]:
    causes = []
    for index, container in enumerate(sequence(spec, "containers") if spec.get("hostNetwork") else ()):
        for place, port in enumerate(sequence(container, "ports")):
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
                text = "must match `containerPort` when `hostNetwork` is true"
                where = f"{path}.containers[{index}].ports[{place}].hostPort"
                causes.append(invalid(where, port["hostPort"], text))
    return causes


def _host_user_causes(spec: Json, path: str) -> list[Cause]:
    """Users of its own cannot be had with other parts of the host."""
    if spec.get("hostUsers") is not False:
        return []
    # Two of the fields by the names that a real server gives them.
    fields = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    places = [f"{path}.{shown}" for name, shown in fields.items() if spec.get(name)]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec, field)):
            if container.get("volumeDevices"):
                places.append(f"{path}.{field}[{index}].volumeDevices")
    return [forbidden_field(place, "when `hostUsers` is false") for place in places]


def _system_causes(spec: Json, path: str) -> list[Cause]:
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [missing_value(f"{path}.os.name")]
    return [] if name in _SYSTEMS else [not_supported(f"{path}.os", name, _SYSTEMS)]


def _selector_causes(spec: Json, path: str) -> list[Cause]:
    return labels_causes(mapping(spec, "nodeSelector"), f"{path}.nodeSelector")


# All but volumes and containers, in the order of a real server.
_SPEC: tuple[Rule, ...] = (
    _host_network_causes,
    choice("restartPolicy", *RESTART_POLICIES, needed=True),
    choice("dnsPolicy", *_DNS_POLICIES),
    _selector_causes,
    part(
        "securityContext",
        *(number(name, 0, MAX_INT32) for name in ("fsGroup", "runAsUser", "runAsGroup")),
        values("supplementalGroups", lambda value, path: between(value, path, 0, MAX_INT32)),
        choice("fsGroupChangePolicy", "Always", "OnRootMismatch"),
        choice("supplementalGroupsPolicy", "Merge", "Strict"),
    ),
    _process_causes,
    AFFINITY,
    _dns_causes,
    items(
        "readinessGates",
        lambda gate, path: key_causes(gate.get("conditionType") or "", f"{path}.conditionType"),
    ),
    GATES,
    SPREAD,
    _host_user_causes,
    if_named("serviceAccountName"),
    if_named("nodeName"),
    number("activeDeadlineSeconds", 1, MAX_INT32),
    if_named("hostname", "label"),
    if_named("subdomain", "label"),
    TOLERATIONS,
    items(
        "hostAliases",
        lambda alias, path: ip_causes(alias.get("ip") or "", f"{path}.ip"),
        values("hostnames", name_causes),
    ),
    if_named("priorityClassName"),
    if_named("runtimeClassName"),
    preemption_causes,
    _system_causes,
)


def tolerate_the_node(spec: Json) -> None:
    """A Pod stays five minutes on a node that is lost, unless it says otherwise: every server adds this."""
    tolerations = sequence(spec, "tolerations")
    for key in _LOST:
        if not any(
            toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")
            for toleration in tolerations
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def _prepare(pod: Json) -> None:
    tolerate_the_node(pod.setdefault("spec", {}))
    pod["status"] = {"phase": "Pending", "qosClass": _quality(read_spec(pod))}


def _quality(spec: Json) -> str:
    """The class of service by requests and limits."""
    containers = list_containers(spec)
    resources = [
        [_quality_amounts(mapping(container, "resources", name)) for name in ("limits", "requests")]
        # Resources of the whole Pod, also empty ones, count alone.
        for container in (containers if spec.get("resources") is None else [spec])
    ]
    if not any(limits or requests for limits, requests in resources):
        return "BestEffort"
    for limits, requests in resources:
        # Guaranteed takes limits of both in every container, and no request below them.
        if not {"cpu", "memory"} <= limits.keys() or any(requests.get(k, v) != v for k, v in limits.items()):
            return "Burstable"
    return "Guaranteed"


def _quality_amounts(amounts: Json) -> Json:
    """Amounts of what counts for the class of service: devices do not."""
    return {name: amounts[name] for name in ("cpu", "memory") if amounts.get(name) not in (None, "0")}


def _default(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    complete_pod_spec(spec)
    defaults(spec, serviceAccountName="default", serviceAccount="default", enableServiceLinks=True)
    for container in list_containers(spec):
        _request_limits(container["resources"])
        for port in sequence(container, "ports") if spec.get("hostNetwork") else ():
            # In the network of the host each port is one of the host's.
            port["hostPort"] = port.get("hostPort") or port["containerPort"]
    if whole := mapping(spec, "resources"):
        _request_of_containers(whole, sequence(spec, "containers"))
        _request_limits(whole, is_of_pods)


def _request_limits(resources: Json, is_defaulted: Callable[[str], bool] = bool) -> None:
    """Request as much as is allowed, unless it is requested otherwise."""
    for name, limit in mapping(resources, "limits").items():
        if not is_defaulted(name):
            continue
        resources.setdefault("requests", {}).setdefault(name, limit)


def _request_of_containers(whole: Json, containers: list[Json]) -> None:
    """Let a Pod with resources of its own request what its containers do."""
    total: Amounts = {}
    for container in containers:
        total = add(total, amounts(mapping(container, "resources", "requests")))
    for name, amount in texts(total).items():
        if name in ("cpu", "memory"):
            whole.setdefault("requests", {}).setdefault(name, amount)


def _check(pod: Json, old: Json | None) -> list[Cause]:
    if old is None:
        return _new_causes(pod["spec"])
    for name in ("containers", "initContainers"):
        if len(sequence(pod["spec"], name)) != len(sequence(old["spec"], name)):
            return [forbidden_field(f"spec.{name}", "pod updates may not add or remove containers")]
    before, after = _immutable_part(old["spec"]), _immutable_part(pod["spec"])
    if not before.get("nodeName"):
        # The scheduler's word; a real server takes it from `binding` alone.
        before.pop("nodeName", None)
        after.pop("nodeName", None)
    if before != after:
        return [forbidden_field("spec", _FORBIDDEN)]
    return _update_causes(pod["spec"], old["spec"])


def _new_causes(spec: Json) -> list[Cause]:
    causes = pod_spec_causes(spec, "spec") + whitespace_causes(spec, "spec")
    if spec.get("ephemeralContainers"):
        causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_field("spec.nodeName", text))
    return causes


def _update_causes(spec: Json, before: Json) -> list[Cause]:
    """Checks the fields of a Pod that may change; a value that was stored before its rule existed may stay."""
    causes = []
    known = causes_by(_SPEC, before, "spec")
    for cause in causes_by(_SPEC, spec, "spec"):
        if cause not in known:
            causes.append(cause)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec, field)):
            if not container.get("image"):
                causes.append(missing_value(f"spec.{field}[{index}].image"))
    return causes


def _check_status(pod: Json, old: Json | None) -> list[Cause]:
    """Addresses become lines of hosts files and targets of connections."""
    status = read_status(pod)
    addresses = [entry.get("ip") or "" for entry in sequence(status, "podIPs")]
    if status.get("podIP") and not addresses:
        addresses = [status["podIP"]]
    causes: list[Cause] = []
    for index, address in enumerate(addresses):
        causes += ip_causes(address, f"status.podIPs[{index}].ip")
    if status.get("podIP") and not is_ip(status["podIP"]):
        causes += ip_causes(status["podIP"], "status.podIP")
    return causes


def _keep_status(pod: Json, old: Json) -> None:
    """Keep what a kubelet that writes a status may not know."""
    owners = old["metadata"].get("ownerReferences")
    pod["metadata"].pop("ownerReferences", None)
    if owners:
        pod["metadata"]["ownerReferences"] = owners
    quality = read_status(old).get("qosClass")
    if quality and isinstance(status := pod.setdefault("status", {}), dict):
        status["qosClass"] = status.get("qosClass") or quality


def _immutable_part(spec: Json) -> Json:
    """Return the part of a Pod's spec that never changes."""
    kept = {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{k: v for k, v in item.items() if k != "image"} for item in kept[field]]
    return kept


def _warn(pod: Json, old: Json | None) -> list[str]:
    # People rarely change Pods, and programs often do.
    if old is not None:
        return []
    return name_warnings(pod, "the Pod's hostname") + pod_warnings(pod)


POD = Rules(
    prepare=_prepare,
    default=_default,
    check=_check,
    status_check=_check_status,
    keep_status=_keep_status,
    warn=_warn,
)
