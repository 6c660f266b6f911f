"""Objects of one replica: its Pod, and the Service that gives it a stable name from the start.

The user's template is carried through. The operator adds name, labels, owner, restart policy and the framework's
environment (never over the user's variables), and lets the last log lines of a failure become its message.
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
from steelyard.operator.training.model import IN_PLACE, ReplicaId, Role, TrainingJob
from steelyard.operator.training.policies import gang
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_labels


def selector(job: TrainingJob) -> dict[str, str]:
    """Make the labels of all objects of the job; an orphan with these labels is adopted."""
    return {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label}


def labels(job: TrainingJob, replica_id: ReplicaId) -> dict[str, str]:
    """Make the labels of a replica's Pod and Service, by which the Service selects."""
    return {**selector(job), REPLICA_TYPE: replica_id.role.lower(), REPLICA_INDEX: str(replica_id.index)}


def leader(job: TrainingJob) -> ReplicaId:
    """Return the replica that stands for the job: replica 0 of the master type, or the first worker.

    It has v1's label of a master, by which clients find the log of the job.
    """
    masters = (name for name in job.framework.masters if name in job.roles)
    first = next(iter(job.roles))
    return ReplicaId(next(masters, "Worker" if "Worker" in job.roles else first), 0)


def pod(job: TrainingJob, replica_id: ReplicaId, attempt: int) -> Json:
    """Make the Pod of one attempt of a replica."""
    role = job.roles[replica_id.role]
    template = deepcopy(role.template)
    metadata = mapping(template, "metadata")
    spec = template["spec"]
    own = {**labels(job, replica_id), ATTEMPT: str(attempt)}
    if replica_id == leader(job):
        own[JOB_ROLE] = "master"
    created: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": job.replica_name(replica_id),
            "namespace": job.namespace,
            "labels": {**read_labels(template), **own},
            "ownerReferences": [owner_reference(job.resource)],
        },
        "spec": {**spec, "restartPolicy": restart_policy(role), **_network(job, replica_id, spec)},
    }
    _complete_containers(job, replica_id, created["spec"])
    decorated = gang.decorate(job.framework.decorate(Placement(job, replica_id), created), job)
    return output_folder.mount_folder(decorated, job, replica_id)


def restart_policy(role: Role) -> str:
    """Return the Pod's policy, which is v1's: the kubelet restarts containers of Always and OnFailure in place."""
    return role.restart if role.restart in IN_PLACE else "Never"


def _network(job: TrainingJob, replica_id: ReplicaId, spec: Json) -> Json:
    network: Json = {}
    if job.framework.subdomain:
        network = {"hostname": job.replica_name(replica_id), "subdomain": job.name}
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        network["dnsPolicy"] = (
            "ClusterFirstWithHostNet"  # the default would not resolve names of other replicas
        )
    return network


def _complete_containers(job: TrainingJob, replica_id: ReplicaId, spec: Json) -> None:
    framework = job.framework
    environment = framework.environment(Placement(job, replica_id))
    main = framework.container_name(spec)
    for container in spec["containers"]:
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
        if environment and (framework.every_container or container["name"] == main):
            container["env"] = merge(environment, sequence(container, "env"))
        if replica_id in job.status.ports and container["name"] == main:
            # On the host's network two Pods of one node cannot have the framework's port both: an own one replaces it.
            name, port = framework.port_name, job.status.ports[replica_id]
            ports = [entry for entry in sequence(container, "ports") if entry.get("name") != name]
            container["ports"] = [*ports, {"name": name, "containerPort": port, "hostPort": port}]


def merge(ours: Mapping[str, Value], users: list[Json]) -> list[Json]:
    """Merge environments: ours first, so that the user's variables may refer to them; the user's values win."""
    taken = {variable["name"] for variable in users}
    added = [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in ours.items()
        if name not in taken
    ]
    return [*added, *users]


def services(job: TrainingJob, existing: Collection[str] = ()) -> Iterator[Json]:
    """Make the Services, without those whose names are in `existing`.

    They are headless and publish the addresses of Pods that are not ready yet, so that names resolve from the start.
    """
    if job.framework.subdomain:
        port = _port(job.framework, job.framework.port)
        if job.name not in existing:
            yield _service(job, job.name, selector(job), [port])
    elif job.framework.services:
        yield from (
            service(job, replica_id)
            for replica_id in job.replica_ids
            if job.replica_name(replica_id) not in existing
        )


def service_names(job: TrainingJob) -> frozenset[str]:
    if job.framework.subdomain:
        return frozenset({job.name})
    return frozenset(map(job.replica_name, job.replica_ids)) if job.framework.services else frozenset()


def service(job: TrainingJob, replica_id: ReplicaId) -> Json:
    """Make a replica's Service as v1 does: with the Pod's name, and all ports of the framework's container."""
    return _service(job, job.replica_name(replica_id), labels(job, replica_id), _ports(job, replica_id))


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


def _ports(job: TrainingJob, replica_id: ReplicaId) -> list[Json]:
    framework = job.framework
    spec = job.roles[replica_id.role].template["spec"]
    name = framework.container_name(spec)
    main = next(container for container in spec["containers"] if container["name"] == name)
    named = [
        {"name": port.get("name") or f"port-{port['containerPort']}", "port": port["containerPort"]}
        for port in sequence(main, "ports")
        if port.get("name") != framework.port_name
    ]
    return [_port(framework, framework.find_port(job, replica_id)), *named]


def _port(framework: Framework, port: int) -> Json:
    return {"name": framework.port_name, "port": port}
