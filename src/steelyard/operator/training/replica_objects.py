"""What exists for one replica: its Pod, and the Service that gives it a stable name from the start.

The user's template is carried through. Of a Pod are ours: name, labels, owner, restart policy, the environment that
the framework gives (never what the user set), and that the last log lines of a failure become its message.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy

from steelyard.operator.names import owner_reference
from steelyard.operator.training import output_folder
from steelyard.operator.training.frameworks.framework import Framework, Placement, Value
from steelyard.operator.training.labels import (
    ATTEMPT,
    JOB_NAME,
    JOB_ROLE,
    OPERATOR_NAME,
    REPLICA_INDEX,
    REPLICA_TYPE,
)
from steelyard.operator.training.model import Place, Role, TrainingJob
from steelyard.operator.training.policies import gang
from steelyard.types import Json


def selector(job: TrainingJob) -> dict[str, str]:
    """What is on everything of the job; an orphan that has it is adopted."""
    return {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label}


def labels(job: TrainingJob, place: Place) -> dict[str, str]:
    """Of a replica's Pod and Service, as its Service selects by."""
    return {**selector(job), REPLICA_TYPE: place.role.lower(), REPLICA_INDEX: str(place.index)}


def leads(job: TrainingJob, place: Place) -> bool:
    """Whether it has v1's label of a master: who waits for the job, or reads its log, looks there."""
    return place == leader(job)


def leader(job: TrainingJob) -> Place:
    """The replica that stands for the job: of the master type, or the first worker."""
    masters = (name for name in job.framework.masters if name in job.roles)
    first = next(iter(job.roles))
    return Place(next(masters, "Worker" if "Worker" in job.roles else first), 0)


def pod(job: TrainingJob, place: Place, attempt: int) -> Json:
    """The Pod of one attempt of a replica."""
    role = job.roles[place.role]
    template = deepcopy(role.template)
    metadata = template.get("metadata") or {}
    spec = template["spec"]
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": job.replica_name(place),
            "namespace": job.namespace,
            "labels": {**(metadata.get("labels") or {}), **_pod_labels(job, place, attempt)},
            "ownerReferences": [owner_reference(job.resource)],
        },
        "spec": {**spec, "restartPolicy": restart_policy(role), **_network(job, place, spec)},
    }
    _complete_containers(job, place, made["spec"])
    decorated = gang.decorate(job.framework.decorate(Placement(job, place), made), job)
    return output_folder.mounted(decorated, job, place)


def _pod_labels(job: TrainingJob, place: Place, attempt: int) -> dict[str, str]:
    role = {JOB_ROLE: "master"} if leads(job, place) else {}
    return {**labels(job, place), **role, ATTEMPT: str(attempt)}


def restart_policy(role: Role) -> str:
    """Of the Pod: whether the kubelet starts its containers again, which it may only where they restart alone."""
    return role.restart if role.scope == "Pod" and role.restart in {"Always", "OnFailure"} else "Never"


def _network(job: TrainingJob, place: Place, spec: Json) -> Json:
    network: Json = {}
    if job.framework.subdomain:
        network = {"hostname": job.replica_name(place), "subdomain": job.name}
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        network["dnsPolicy"] = "ClusterFirstWithHostNet"  # else it would not resolve the other replicas
    return network


def _complete_containers(job: TrainingJob, place: Place, spec: Json) -> None:
    framework = job.framework
    environment = framework.environment(Placement(job, place))
    main = framework.container_of(spec)
    for container in spec["containers"]:
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
        if environment and (framework.every_container or container["name"] == main):
            container["env"] = merged(environment, container.get("env") or [])
        if place in job.memory.ports and container["name"] == main:
            _move_port(container, framework, job.memory.ports[place])


def merged(ours: Mapping[str, Value], users: list[Json]) -> list[Json]:
    """Ours first, so that the user's may refer to them; what the user sets is left to the user."""
    taken = {each["name"] for each in users}
    given = [_variable(name, value) for name, value in ours.items() if name not in taken]
    return [*given, *users]


def _variable(name: str, value: Value) -> Json:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}


def _move_port(container: Json, framework: Framework, port: int) -> None:
    """On the host's network the replica listens where it was told to."""
    ports = [each for each in container.get("ports") or [] if each.get("name") != framework.port_name]
    main = {"name": framework.port_name, "containerPort": port, "hostPort": port}
    container["ports"] = [*ports, main]


def services(job: TrainingJob, there: Collection[str] = ()) -> Iterator[Json]:
    """Headless, and with the addresses of Pods that are not ready yet: names resolve from the start.

    Without those that are there already.
    """
    if job.framework.subdomain:
        port = _port(job.framework, job.framework.port)
        if job.name not in there:
            yield _service(job, job.name, selector(job), [port])
    elif job.framework.services:
        yield from (service(job, place) for place in job.places if job.replica_name(place) not in there)


def service_names(job: TrainingJob) -> frozenset[str]:
    if job.framework.subdomain:
        return frozenset({job.name})
    return frozenset(map(job.replica_name, job.places)) if job.framework.services else frozenset()


def service(job: TrainingJob, place: Place) -> Json:
    """v1: named as the Pod, with all ports of the framework's container."""
    return _service(job, job.replica_name(place), labels(job, place), _ports(job, place))


def _service(job: TrainingJob, name: str, selected: dict[str, str], ports: list[Json]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": selected,
            "ownerReferences": [owner_reference(job.resource)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": selected,
            "publishNotReadyAddresses": True,
            "ports": ports,
        },
    }


def _ports(job: TrainingJob, place: Place) -> list[Json]:
    framework = job.framework
    spec = job.roles[place.role].template["spec"]
    main = next(each for each in spec["containers"] if each["name"] == framework.container_of(spec))
    others = [each for each in main.get("ports") or [] if each.get("name") != framework.port_name]
    named = [
        {"name": each.get("name") or f"port-{each['containerPort']}", "port": each["containerPort"]}
        for each in others
    ]
    return [_port(framework, framework.port_of(job, place)), *named]


def _port(framework: Framework, port: int) -> Json:
    return {"name": framework.port_name, "port": port}
