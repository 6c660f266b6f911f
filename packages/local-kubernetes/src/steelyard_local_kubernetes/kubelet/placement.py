"""Rules by which a Pod may run on the node, of the node and of other Pods: cordon, taints, affinity, ports, spread.

Pure functions, which the scheduler calls before it checks amounts. Each reason is worded as Kubernetes' scheduler words
it, and as there the first one is the answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_labels
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.controllers.pods import matches

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NAMESPACE_NAME = "kubernetes.io/metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ALL_ADDRESSES = "0.0.0.0"
NamespaceLabels = Callable[[str], Mapping[str, str]]


def name_only(namespace: str) -> Mapping[str, str]:
    """Return the label that every namespace has."""
    return {NAMESPACE_NAME: namespace}


@dataclass
class Residents:
    """The Pods on the node that have not ended, as far as rules of others ask about them."""

    pods: list[Json] = field(default_factory=list)
    namespace_labels: NamespaceLabels = name_only
    _ports: set[tuple[str, str, int]] = field(default_factory=set)
    _shunning: list[Json] = field(default_factory=list)  # those with rules against other Pods on their node

    def add(self, pod: Json) -> None:
        self.pods.append(pod)
        self._ports |= host_ports(pod)
        if _terms(pod, "podAntiAffinity"):
            self._shunning.append(pod)

    def has_port_of(self, pod: Json) -> bool:
        return any(_conflict(port, used) for port in host_ports(pod) for used in self._ports)

    def shun(self, pod: Json, labels: Mapping[str, str]) -> bool:
        """Return whether the rules of a Pod on the node keep this one away."""
        return any(
            term["topologyKey"] in labels and self.selects(term, resident, pod)
            for resident in self._shunning
            for term in _terms(resident, "podAntiAffinity")
        )

    def selects(self, term: Json, owner: Json, pod: Json) -> bool:
        """Return whether an affinity term of `owner` selects the Pod."""
        namespace = pod["metadata"]["namespace"]
        names, selector = sequence(term, "namespaces"), term.get("namespaceSelector")
        if not names and selector is None:
            names = [owner["metadata"]["namespace"]]
        there = namespace in names
        there = there or (selector is not None and matches(selector, dict(self.namespace_labels(namespace))))
        return (
            there
            and term.get("labelSelector") is not None
            and matches(_with_keys(term, owner), read_labels(pod))
        )


def refusal(pod: Json, node: Json, residents: Residents) -> str:
    """Return why the Pod may not run on the node, worded as the scheduler does; empty where it may."""
    labels = read_labels(node)
    if mapping(node, "spec").get("unschedulable") and not _tolerates(pod, UNSCHEDULABLE):
        return "node(s) were unschedulable"
    if taints_without_toleration(pod, node, "NoSchedule", "NoExecute"):
        return "node(s) had untolerated taint(s)"
    if not _selects_node(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if residents.has_port_of(pod):
        return "node(s) didn't have free ports for the requested pod ports"
    return _spread(pod, labels, residents) or _neighbours(pod, labels, residents)


def ensure_readable(pod: Json, node: Json) -> None:
    """Raise what asking the Pod's rules raises, so that a Pod that cannot be read stops no other."""
    alone = Residents()
    alone.add(pod)
    refusal(pod, node, alone)


def is_gated(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


# ---- taints


def taints_without_toleration(pod: Json, node: Json, *effects: str) -> list[Json]:
    """Return the node's taints with these effects that the Pod does not tolerate."""
    taints = sequence(node, "spec", "taints")
    return [taint for taint in taints if taint.get("effect") in effects and not _tolerates(pod, taint)]


def _tolerates(pod: Json, taint: Json) -> bool:
    return any(tolerates(toleration, taint) for toleration in sequence(pod["spec"], "tolerations"))


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    # A toleration without a key needs Exists; with Equal it matches nothing.
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


# ---- the node's labels


def _selects_node(pod: Json, node: Json) -> bool:
    spec, labels = pod["spec"], read_labels(node)
    if not mapping(spec, "nodeSelector").items() <= labels.items():
        return False
    required = mapping(spec, "affinity", "nodeAffinity").get(_REQUIRED)
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_holds(rule, labels) for rule in sequence(term, "matchExpressions"))
        and all(_holds(rule, fields) for rule in sequence(term, "matchFields"))
        for term in sequence(required, "nodeSelectorTerms")
    )


def _holds(rule: Json, labels: Mapping[str, str]) -> bool:
    if rule["operator"] not in ("Gt", "Lt"):
        return matches({"matchExpressions": [rule]}, dict(labels))
    try:
        has, bound = int(labels[rule["key"]]), int(rule["values"][0])
    except (KeyError, ValueError):
        return False
    return has > bound if rule["operator"] == "Gt" else has < bound


# ---- ports of the host


def host_ports(pod: Json) -> set[tuple[str, str, int]]:
    """Return the ports of the machine that the Pod takes: address, protocol, number."""
    return {
        (port.get("hostIP") or _ALL_ADDRESSES, port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in list_containers(pod["spec"])
        for port in sequence(container, "ports")
        if port.get("hostPort")
    }


def _conflict(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    everywhere = _ALL_ADDRESSES in (one[0], other[0])
    return one[1:] == other[1:] and (everywhere or one[0] == other[0])


# ---- other Pods


def _terms(pod: Json, kind: str) -> list[Json]:
    return sequence(pod["spec"], "affinity", kind, _REQUIRED)


def _with_keys(term: Json, pod: Json) -> Json:
    """Return the term's selector with `matchLabelKeys` and `mismatchLabelKeys` as the Pod's own labels fill them."""
    selector, own = dict(term["labelSelector"]), read_labels(pod)
    rules = [
        {"key": key, "operator": operator, "values": [own[key]]}
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in sequence(term, keys)
        if key in own
    ]
    return {**selector, "matchExpressions": [*sequence(selector, "matchExpressions"), *rules]}


def _neighbours(pod: Json, labels: Mapping[str, str], residents: Residents) -> str:
    terms = _terms(pod, "podAffinity")
    if any(term["topologyKey"] not in labels for term in terms):
        return "node(s) didn't match pod affinity rules"
    # All terms must select the same Pods, as with a real scheduler.
    matching = [
        other
        for other in residents.pods
        if terms and all(residents.selects(term, pod, other) for term in terms)
    ]
    # The first of a group that wants to be together finds no other of the group yet.
    first = not matching and all(residents.selects(term, pod, pod) for term in terms)
    if terms and not matching and not first:
        return "node(s) didn't match pod affinity rules"
    for term in _terms(pod, "podAntiAffinity"):
        beside = (other for other in residents.pods if residents.selects(term, pod, other))
        if term["topologyKey"] in labels and any(True for _ in beside):
            return "node(s) didn't match pod anti-affinity rules"
    if residents.shun(pod, labels):
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def _spread(pod: Json, labels: Mapping[str, str], residents: Residents) -> str:
    """One node is one domain of every topology: only a label that it lacks or `minDomains` can refuse a Pod."""
    reason = "node(s) didn't match pod topology spread constraints"
    for rule in sequence(pod["spec"], "topologySpreadConstraints"):
        if rule.get("whenUnsatisfiable") == "ScheduleAnyway":
            continue
        if rule["topologyKey"] not in labels:
            return f"{reason} (missing required label)"
        if (rule.get("minDomains") or 1) < 2:
            continue
        # With fewer domains than that, the emptiest counts as having no Pod.
        alike = [other for other in (*residents.pods, pod) if _is_alike(rule, pod, other)]
        if len(alike) > int(rule["maxSkew"]):
            return reason
    return ""


def _is_alike(rule: Json, pod: Json, other: Json) -> bool:
    same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
    if not same or is_deleting(other) or rule.get("labelSelector") is None:
        return False
    return matches(_with_keys(rule, pod), read_labels(other))


# ---- eviction by taints


def has_taint(node: Json, effect: str) -> bool:
    """Return whether the node has a taint of this effect."""
    return any(taint.get("effect") == effect for taint in sequence(node, "spec", "taints"))


def toleration_seconds(pod: Json, node: Json) -> float | None:
    """Return for how many seconds the Pod may stay in spite of the node's NoExecute taints; None: for ever."""
    taints = [taint for taint in sequence(node, "spec", "taints") if taint.get("effect") == "NoExecute"]
    limits: list[float] = []
    for taint in taints:
        tolerations = [rule for rule in sequence(pod["spec"], "tolerations") if tolerates(rule, taint)]
        if not tolerations:
            return 0.0
        seconds = (rule.get("tolerationSeconds") for rule in tolerations)
        limits += [max(float(number), 0.0) for number in seconds if number is not None]
    return min(limits, default=None)
