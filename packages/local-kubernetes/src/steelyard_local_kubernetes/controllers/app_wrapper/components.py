"""Components of an AppWrapper: the objects that it makes, and the state of them and their Pods."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import NotFound
from steelyard_kube.objects import controller_uid, read_labels
from steelyard_kube.pods import container_statuses, find_end, read_phase
from steelyard_kube.resource import APP_WRAPPERS, find_resource
from steelyard_local_kubernetes.controllers.pods import owner_reference
from steelyard_local_kubernetes.controllers.queued_kinds import MANAGED, component_pods

LABEL = "workload.codeflare.dev/appwrapper"
ENDLESS = frozenset({"RayCluster", "Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of components that do not end by themselves."""


@dataclass(frozen=True)
class Health:
    """Numbers of Pods by their state, and the ends of the components."""

    expected: int
    present: int
    ready: int  # running or succeeded
    failed: tuple[Json, ...]
    succeeded: bool
    fault: str  # of a component

    @property
    def exit_codes(self) -> set[int]:
        states = (find_end(status) for pod in self.failed for status in container_statuses(pod))
        return {int(state["exitCode"]) for state in states if state}


def component(wrapper: Json, entry: Json) -> Json:
    """Return the object of a component: owned by the AppWrapper, its Pods labelled with its name."""
    obj: Json = deepcopy(entry["template"])
    metadata = obj.setdefault("metadata", {})
    metadata["namespace"] = wrapper["metadata"]["namespace"]
    metadata["ownerReferences"] = [owner_reference(wrapper)]
    for template in (obj, *_templates(obj)):
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[LABEL] = wrapper["metadata"]["name"]
    return obj


def _templates(node: object) -> Iterable[Json]:
    """Yield the templates of Pods anywhere in an object."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "template" and isinstance(value, dict) and mapping(value, "spec").get("containers"):
                yield value
            else:
                yield from _templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from _templates(value)


def first_unknown_kind(wrapper: Json) -> str:
    """Return the kind of a component that is not made here; empty where all are."""
    for entry in sequence(wrapper["spec"], "components"):
        template = entry["template"]
        try:
            resource = find_resource(template)
        except KeyError:
            return f"{template.get('apiVersion')} {template.get('kind')}"
        if resource == APP_WRAPPERS:
            return f"{template['kind']}, which would hold its components once more for each level"
        if not resource.namespaced:
            return f"{template['kind']}, which has no namespace"
    return ""


async def observe(cluster: Cluster, wrapper: Json, children: list[Json]) -> list[Json]:
    """Read the components by their names: they are of any kind, and no cache holds them all."""
    present = []
    if first_unknown_kind(wrapper):
        return []
    for entry in sequence(wrapper["spec"], "components"):
        template = entry["template"]
        name = mapping(template, "metadata").get("name", "")
        try:
            obj = await cluster.get(find_resource(template), name, wrapper["metadata"]["namespace"])
        except NotFound:
            continue
        if controller_uid(obj) == wrapper["metadata"]["uid"]:
            present.append(obj)
    return present


def is_pod_of(wrapper: Json, pod: Json) -> bool:
    name: str = wrapper["metadata"]["name"]
    return read_labels(pod).get(LABEL) == name


def component_health(wrapper: Json, components: list[Json], pods: list[Json]) -> Health:
    """Return the health, by the Pods and by the components that end by themselves."""
    sets = [pod_set for entry in sequence(wrapper["spec"], "components") for pod_set in component_pods(entry)]
    expected = sum(int(pod_set["count"]) for pod_set in sets)
    ends = []
    finite = 0
    for obj in components:
        managed = MANAGED.get(find_resource(obj))
        if managed is None or obj["kind"] == "RayCluster":
            continue
        finite += 1
        if end := managed.end(obj):
            ends.append((obj, end))
    faults = [
        f"{obj['kind']} {obj['metadata']['name']}: {end.message}" for obj, end in ends if not end.succeeded
    ]
    phases = [read_phase(pod) for pod in pods]
    by_pods = not finite and expected > 0 and phases.count("Succeeded") >= expected
    # What still runs when a Job has ended needs its quota, which a success would give back.
    goes_on = bool({"Pending", "Running"} & {*phases}) or any(obj["kind"] in ENDLESS for obj in components)
    by_components = finite > 0 and len(ends) == finite and not faults and not goes_on
    return Health(
        expected=expected,
        present=len(pods),
        ready=phases.count("Running") + phases.count("Succeeded"),
        failed=tuple(pod for pod in pods if read_phase(pod) == "Failed"),
        succeeded=by_pods or by_components,
        fault="; ".join(faults),
    )
