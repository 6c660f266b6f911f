"""Rules for RayClusters, RayJobs and AppWrappers beyond their schemas: pure functions that yield faults with paths.

They find what would be accepted and then not work. The API has checked types and required fields before, except in the
templates of an AppWrapper, which it does not read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain, islice
from typing import NamedTuple

from steelyard.operator.ray.certificates.templates import CONTAINER, FILES_VOLUME, FOLDER, IDENTITY_VOLUME
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import find_controller, read_annotations, read_labels
from steelyard_schema.object_names import name_faults, value_faults, variable_faults
from steelyard_schema.quantity import amount
from steelyard_schema.ray_annotations import CERTIFICATES
from steelyard_schema.unknown_fields import unknown_pod_fields

CLUSTER_NAME, JOB_NAME, LABEL = 50, 47, 63
"""Characters: KubeRay makes names of Pods and Services from these, and cuts longer ones."""
QUEUE = "kueue.x-k8s.io/queue-name"
WRAPPED = frozenset(
    {
        *("v1/Pod", "v1/Service", "v1/ConfigMap", "v1/Secret", "v1/PersistentVolumeClaim"),
        *("apps/v1/Deployment", "apps/v1/StatefulSet", "batch/v1/Job", "networking.k8s.io/v1/Ingress"),
        *("ray.io/v1/RayCluster", "ray.io/v1/RayJob", "dyff.io/v1alpha1/DLJob"),
        *(
            f"kubeflow.org/v1/{kind}"
            for kind in ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob")
        ),
    }
)
"""Kinds that an AppWrapper may make, as deploy/policies/ray.yaml has them."""
_MOST = 20
"""Faults that the message of an answer shows."""
MOST_FAULTS = 100
"""Faults that are looked for, and one more, which tells that there are others."""


class Fault(NamedTuple):
    """A fault of an object: the path of a field, and the words about it."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


Faults = Iterator[Fault]


def find_faults(obj: Json, old: Json | None = None) -> list[Fault]:
    """Return the first faults of an object that are not faults of `old`, which is kept now: at most 101."""
    # What was kept before this rule was there may still be changed in other respects.
    known: set[Fault] = set() if old is None else set(_all_faults(old))
    faults = chain(_all_faults(obj), () if old is None else _check_fixed_fields(obj, old))
    return list(islice(_without_known(faults, known), MOST_FAULTS + 1))


def _without_known(faults: Iterable[Fault], known: set[Fault]) -> Faults:
    """Yield each fault once that is not known."""
    for fault in faults:
        if fault not in known:
            known.add(fault)
            yield fault


def _all_faults(obj: Json) -> Faults:
    rules: Mapping[str, Callable[[Json, str], Faults]] = {
        "RayCluster": ray_cluster,
        "RayJob": ray_job,
        "AppWrapper": app_wrapper,
    }
    rule = rules.get(str(obj.get("kind")))
    if rule is None:
        return
    try:
        yield from rule(obj, "")
    except (TypeError, AttributeError) as error:
        # Only templates of AppWrappers get here with another type: the schemas refuse it elsewhere.
        yield Fault("spec", f"has a field of another type: {error}")


def join_faults(faults: list[Fault]) -> str:
    shown = "; ".join(map(str, faults[:_MOST]))
    if len(faults) > MOST_FAULTS:
        return f"{shown}; and more than {MOST_FAULTS - _MOST} more"
    return f"{shown}; and {len(faults) - _MOST} more" if len(faults) > _MOST else shown


def _check_fixed_fields(obj: Json, old: Json) -> Faults:
    before, after = (read_annotations(version).get(CERTIFICATES) for version in (old, obj))
    if before and not after:
        yield Fault(
            f"metadata.annotations[{CERTIFICATES}]", "cannot be taken away: its Pods use certificates"
        )


# ---- kinds


def ray_cluster(obj: Json, prefix: str) -> Faults:
    name = mapping(obj, "metadata").get("name", "")
    # KubeRay names the cluster of a job, whose name it has checked.
    longest = LABEL if find_controller(obj) else CLUSTER_NAME
    yield from _name(name, f"{prefix}metadata.name", longest)
    yield from _queue(obj, prefix)
    yield from _cluster_spec(mapping(obj, "spec"), f"{prefix}spec")


def ray_job(obj: Json, prefix: str) -> Faults:
    spec, path = mapping(obj, "spec"), f"{prefix}spec"
    name = mapping(obj, "metadata").get("name", "")
    yield from _name(name, f"{prefix}metadata.name", JOB_NAME)
    yield from _queue(obj, prefix)
    own, chosen = mapping(spec, "rayClusterSpec"), mapping(spec, "clusterSelector")
    if bool(own) == bool(chosen):
        yield Fault(path, "give either rayClusterSpec, for a cluster of the job's own, or clusterSelector")
    if chosen and not chosen.get("ray.io/cluster"):
        yield Fault(f"{path}.clusterSelector", "needs ray.io/cluster with the name of a RayCluster")
    if chosen and read_labels(obj).get(QUEUE):
        yield Fault(f"{prefix}metadata.labels[{QUEUE}]", "belongs to a job with a cluster of its own")
    if spec.get("submissionMode") != "InteractiveMode" and not str(spec.get("entrypoint") or "").strip():
        yield Fault(f"{path}.entrypoint", "is required: the command that the job runs")
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        yield Fault(f"{path}.ttlSecondsAfterFinished", "has no effect without shutdownAfterJobFinishes")
    for field in ("ttlSecondsAfterFinished", "backoffLimit"):
        yield from _at_least(spec, field, 0, path)
    yield from _at_least(spec, "activeDeadlineSeconds", 1, path)
    if own:
        yield from _cluster_spec(own, f"{path}.rayClusterSpec")
    if pod := mapping(spec, "submitterPodTemplate", "spec"):
        yield from _pod(pod, f"{path}.submitterPodTemplate.spec")


def app_wrapper(obj: Json, prefix: str) -> Faults:
    namespace = mapping(obj, "metadata").get("namespace", "")
    yield from _queue(obj, prefix)
    components = sequence(obj, "spec", "components")
    if not components:
        yield Fault(f"{prefix}spec.components", "is empty: there is nothing to make")
    seen: set[tuple[str, str]] = set()
    for index, component in enumerate(components):
        path = f"{prefix}spec.components[{index}].template"
        template = mapping(component, "template")
        yield from _component(template, path, namespace)
        identity = str(template.get("kind")), str(mapping(template, "metadata").get("name"))
        if identity in seen:
            yield Fault(f"{path}.metadata.name", f"another component is a {' '.join(identity)} too")
        seen.add(identity)


def _component(template: Json, path: str, namespace: str) -> Faults:
    kind = f"{template.get('apiVersion')}/{template.get('kind')}"
    if kind not in WRAPPED:
        yield Fault(f"{path}.kind", f"{kind} is not of a kind that an AppWrapper may make")
        return
    metadata = mapping(template, "metadata")
    if not metadata.get("name"):
        yield Fault(f"{path}.metadata.name", "is required")
    if metadata.get("namespace", namespace) != namespace:
        yield Fault(
            f"{path}.metadata.namespace",
            f"{metadata['namespace']!r} is not the namespace of the AppWrapper, {namespace!r}",
        )
    if read_labels(template).get(QUEUE):
        yield Fault(f"{path}.metadata.labels[{QUEUE}]", "belongs to the AppWrapper, which is admitted as one")
    rules = {"ray.io/v1/RayCluster": ray_cluster, "ray.io/v1/RayJob": ray_job}
    if kind in rules and metadata.get("name"):
        yield from rules[kind](template, f"{path}.")
    # The API reads no template of an AppWrapper: its controller would make the object without these fields.
    yield from (Fault(*unknown) for unknown in unknown_pod_fields(template, path))


# ---- parts


def _cluster_spec(spec: Json, path: str) -> Faults:
    yield from _group(mapping(spec, "headGroupSpec"), f"{path}.headGroupSpec")
    names: set[str] = set()
    for index, group in enumerate(sequence(spec, "workerGroupSpecs")):
        where, name = f"{path}.workerGroupSpecs[{index}]", str(group.get("groupName") or "")
        if not name:
            yield Fault(f"{where}.groupName", "is required")
        elif name in names:
            yield Fault(f"{where}.groupName", f"{name!r} is the name of another group too")
        else:
            yield from (Fault(f"{where}.groupName", f"{name!r}: {text}") for text in value_faults(name))
        names.add(name)
        yield from _replicas(group, where)
        yield from _group(group, where)
    options = mapping(spec, "gcsFaultToleranceOptions")
    if options and not str(options.get("redisAddress") or ""):
        yield Fault(f"{path}.gcsFaultToleranceOptions.redisAddress", "is required")


def _replicas(group: Json, path: str) -> Faults:
    least, most = group.get("minReplicas") or 0, group.get("maxReplicas")
    replicas, hosts = group.get("replicas"), group.get("numOfHosts")
    if least < 0:
        yield Fault(f"{path}.minReplicas", f"{least} must not be negative")
    if most is not None and most < least:
        yield Fault(f"{path}.maxReplicas", f"{most} must not be less than minReplicas, {least}")
    elif replicas is not None and not (least <= replicas and (most is None or replicas <= most)):
        bounds = f"{least} (minReplicas) and {'any number' if most is None else f'{most} (maxReplicas)'}"
        yield Fault(f"{path}.replicas", f"{replicas} must be between {bounds}")
    if hosts is not None and hosts < 1:
        yield Fault(f"{path}.numOfHosts", f"{hosts} must be at least 1")


def _group(group: Json, path: str) -> Faults:
    pod, where = mapping(group, "template", "spec"), f"{path}.template.spec"
    if not sequence(pod, "containers"):
        yield Fault(f"{where}.containers", "needs a container: the first one runs Ray")
        return
    yield from _pod(pod, where)


def _pod(pod: Json, path: str) -> Faults:
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(sequence(pod, kind)):
            where, name = f"{path}.{kind}[{index}]", str(container.get("name") or "")
            yield from (Fault(f"{where}.name", f"{name!r}: {text}") for text in name_faults(name, "label"))
            if name in names:
                yield Fault(f"{where}.name", f"{name!r} is the name of another container too")
            names.add(name)
            yield from _container(container, where)
    volumes = {str(volume.get("name")) for volume in sequence(pod, "volumes")}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(sequence(pod, kind)):
            for number, mount in enumerate(sequence(container, "volumeMounts")):
                if mount.get("name") not in volumes:
                    where = f"{path}.{kind}[{index}].volumeMounts[{number}].name"
                    yield Fault(where, f"{mount.get('name')!r}: there is no volume of this name")
    yield from _check_reserved(pod, path)


def _check_reserved(pod: Json, path: str) -> Faults:
    """Yield what takes the place of the platform's own volumes, container or folder in a Pod."""
    for index, volume in enumerate(sequence(pod, "volumes")):
        kept = {FILES_VOLUME: "emptyDir", IDENTITY_VOLUME: "projected"}.get(str(volume.get("name")))
        if kept and kept not in volume:
            yield Fault(f"{path}.volumes[{index}].name", f"{volume['name']!r} is the platform's own")
    for index, container in enumerate(sequence(pod, "containers")):
        if container.get("name") == CONTAINER:
            yield Fault(f"{path}.containers[{index}].name", f"{CONTAINER!r} is the platform's own")
        for number, mount in enumerate(sequence(container, "volumeMounts")):
            if mount.get("mountPath", "").rstrip("/") == FOLDER and mount.get("name") != FILES_VOLUME:
                where = f"{path}.containers[{index}].volumeMounts[{number}].mountPath"
                yield Fault(where, f"{FOLDER} is the platform's own")


def _container(container: Json, path: str) -> Faults:
    if not str(container.get("image") or "").strip():
        yield Fault(f"{path}.image", "is required")
    for index, variable in enumerate(sequence(container, "env")):
        name = str(variable.get("name") or "")
        yield from (Fault(f"{path}.env[{index}].name", f"{name!r}: {text}") for text in variable_faults(name))
    requests, limits = (mapping(container, "resources", kind) for kind in ("requests", "limits"))
    numbers: dict[tuple[str, str], Decimal] = {}
    for kind, amounts in (("requests", requests), ("limits", limits)):
        for resource, value in amounts.items():
            where = f"{path}.resources.{kind}.{resource}"
            try:
                numbers[kind, resource] = number = amount(str(value))
            except ValueError as error:
                yield Fault(where, str(error))
                continue
            if number < 0:
                yield Fault(where, f"{value} must not be negative")
            elif resource == "memory" and 0 < number < 2**20:
                yield Fault(where, f"{value} is less than 1 MiB: it is in bytes; do you mean {value}Gi?")
    for (kind, resource), number in numbers.items():
        limit = numbers.get(("limits", resource))
        if kind == "requests" and limit is not None and number > limit:
            yield Fault(
                f"{path}.resources.requests.{resource}",
                f"{requests[resource]} is more than the limit, {limits[resource]}",
            )


def _name(name: str, path: str, longest: int) -> Faults:
    # Without a name, generateName makes one: the API appends five characters to it.
    if len(name) > longest:
        yield Fault(
            path,
            f"{name!r} has more than {longest} characters: the names of its Pods and Services would be cut",
        )
    if name:
        yield from (Fault(path, f"{name!r}: {text}") for text in name_faults(name, "service"))


def _queue(obj: Json, prefix: str) -> Faults:
    queue = read_labels(obj).get(QUEUE)
    if queue is not None:
        path = f"{prefix}metadata.labels[{QUEUE}]"
        yield from (Fault(path, f"{queue!r}: {text}") for text in name_faults(queue))


def _at_least(spec: Json, field: str, least: int, path: str) -> Faults:
    value = spec.get(field)
    if isinstance(value, int) and value < least:
        yield Fault(f"{path}.{field}", f"{value} must be at least {least}")
