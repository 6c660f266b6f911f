"""Gang scheduling: all Pods of a job get nodes at once, or none does. A PodGroup per job, for Volcano or coscheduling.

Volcano admits a group to its queue before any Pod is made; coscheduling holds the Pods themselves back. Kueue needs
none of this: it suspends and resumes the job (`suspend.py`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from steelyard.kube.resource import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS
from steelyard.operator.children import Children
from steelyard.operator.desired import Event
from steelyard.operator.names import owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME, REPLICA_TYPE
from steelyard.operator.training.model import TrainingJob
from steelyard.schema.quantity import amount, quantity
from steelyard.types import Json

VOLCANO = "volcano"
_OF_A_GANG = ("minAvailable", "minResources", "scheduleTimeoutSeconds")


def pod_group(job: TrainingJob) -> Json | None:
    """The job's PodGroup, where a gang scheduler is set."""
    scheduler = job.settings.gang_scheduler
    if not scheduler:
        return None
    kind = VOLCANO_POD_GROUPS if scheduler == VOLCANO else COSCHEDULING_POD_GROUPS
    metadata = {
        "name": job.name,
        "namespace": job.namespace,
        "labels": {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label},
        "ownerReferences": [owner_reference(job.resource)],
    }
    spec = _volcano(job) if scheduler == VOLCANO else _coscheduling(job)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def decorate(pod: Json, job: TrainingJob) -> Json:
    """The Pod as a member of its group. Another scheduler that the user named stays."""
    scheduler = job.settings.gang_scheduler
    if not scheduler:
        return pod
    metadata, spec = pod["metadata"], pod["spec"]
    if scheduler == VOLCANO:
        task = (metadata.get("labels") or {}).get(REPLICA_TYPE, "")
        mine = {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": task}
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **mine}}
    else:
        group = {"scheduling.x-k8s.io/pod-group": job.name}
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **group}}
    return {**pod, "metadata": metadata, "spec": {"schedulerName": scheduler, **spec}}


def admitted(job: TrainingJob, children: Children) -> bool:
    """Whether Pods may be made: Volcano has taken the group out of Pending."""
    if job.settings.gang_scheduler != VOLCANO:
        return True
    groups = children.of_kind("PodGroup")
    phase = (groups[0].get("status") or {}).get("phase") if groups else None
    return phase not in (None, "", "Pending")


def ignored(job: TrainingJob) -> Event | None:
    """What is said to whoever asks for a gang where the operator makes none: its Pods may start one by one.

    A priority class or a queue alone may be meant for Kueue.
    """
    asked = [name for name in _OF_A_GANG if job.policy.scheduling.get(name) is not None]
    if job.settings.gang_scheduler or not asked:
        return None
    fields = ", ".join(f"spec.runPolicy.schedulingPolicy.{name}" for name in asked)
    message = f"{fields}: without effect, because the operator's setting training.gang_scheduler is empty"
    return Event("Warning", "SchedulingPolicyIgnored", message)


def minimum(job: TrainingJob) -> int:
    """How many Pods must get nodes at once, as the job says: v1 passes on 0, and more than there are replicas.

    An elastic job counts on replicas that an autoscaler is yet to ask for.
    """
    given = job.policy.scheduling.get("minAvailable")
    return job.total if given is None else int(given)


def _volcano(job: TrainingJob) -> Json:
    policy = job.policy.scheduling
    spec: Json = {"minMember": minimum(job), "queue": policy.get("queue") or "default"}
    if policy.get("priorityClass"):
        spec["priorityClassName"] = policy["priorityClass"]
    return spec | _resources(job)


def _coscheduling(job: TrainingJob) -> Json:
    spec: Json = {"minMember": minimum(job)}
    if job.policy.scheduling.get("scheduleTimeoutSeconds") is not None:
        spec["scheduleTimeoutSeconds"] = job.policy.scheduling["scheduleTimeoutSeconds"]
    return spec | _resources(job)


def _resources(job: TrainingJob) -> Json:
    """What the policy says, else what the first `minimum` replicas ask for, in the framework's order."""
    given = job.policy.scheduling.get("minResources")
    if given:
        return {"minResources": given}
    asked = Counter[str]()
    wanted: dict[str, Decimal] = {}
    for place in job.places[: minimum(job)]:
        asked[place.role] += 1
    for role, count in asked.items():
        for name, number in _requests(job.roles[role].template).items():
            wanted[name] = wanted.get(name, Decimal(0)) + number * count
    return (
        {"minResources": {name: quantity(number) for name, number in sorted(wanted.items())}}
        if wanted
        else {}
    )


def _requests(template: Json) -> Mapping[str, Decimal]:
    found: dict[str, Decimal] = {}
    for container in template["spec"]["containers"]:
        for name, text in _asked(container.get("resources") or {}):
            found[name] = found.get(name, Decimal(0)) + amount(str(text))
    return found


def _asked(resources: Json) -> Iterable[tuple[str, Any]]:
    """Requests; of what has only a limit, that."""
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items()
