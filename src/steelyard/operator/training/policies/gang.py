"""Gang scheduling: all Pods of a job get nodes at once, or none does. A PodGroup per job, for Volcano or coscheduling.

Volcano admits a group to its queue before any Pod is created; coscheduling holds the Pods themselves back. Kueue needs
none of this: it suspends and resumes the job (`suspend.py`).
"""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal

from steelyard.operator.children import Children
from steelyard.operator.desired import Event
from steelyard.operator.names import owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME, REPLICA_TYPE
from steelyard.operator.training.model import TrainingJob
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_annotations, read_labels, read_status
from steelyard_kube.resource import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS
from steelyard_schema.quantity import amount, quantity

VOLCANO = "volcano"
_GANG_FIELDS = ("minAvailable", "minResources", "scheduleTimeoutSeconds")


def pod_group(job: TrainingJob) -> Json | None:
    """Make the job's PodGroup; None without a gang scheduler."""
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
    policy = job.policy.scheduling
    spec: Json = {"minMember": minimum(job), **_resources(job)}
    if scheduler == VOLCANO:
        spec["queue"] = policy.get("queue") or "default"
        if policy.get("priorityClass"):
            spec["priorityClassName"] = policy["priorityClass"]
    elif policy.get("scheduleTimeoutSeconds") is not None:
        spec["scheduleTimeoutSeconds"] = policy["scheduleTimeoutSeconds"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def decorate(pod: Json, job: TrainingJob) -> Json:
    """Make a Pod a member of its group. Another scheduler that the user has named stays."""
    scheduler = job.settings.gang_scheduler
    if not scheduler:
        return pod
    metadata, spec = pod["metadata"], pod["spec"]
    if scheduler == VOLCANO:
        task = read_labels(pod).get(REPLICA_TYPE, "")
        group = {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": task}
        metadata = {**metadata, "annotations": {**read_annotations(pod), **group}}
    else:
        group = {"scheduling.x-k8s.io/pod-group": job.name}
        metadata = {**metadata, "labels": {**read_labels(pod), **group}}
    return {**pod, "metadata": metadata, "spec": {"schedulerName": scheduler, **spec}}


def is_admitted(job: TrainingJob, children: Children) -> bool:
    """Return whether Pods may be created: with Volcano, once the group is no longer Pending."""
    if job.settings.gang_scheduler != VOLCANO:
        return True
    groups = children.list_kind("PodGroup")
    phase = read_status(groups[0]).get("phase") if groups else None
    return phase not in (None, "", "Pending")


def policy_warning(job: TrainingJob) -> Event | None:
    """Warn if a job asks for a gang and the operator makes none, because its Pods may start one by one.

    A priority class or a queue alone may be meant for Kueue, and makes no event.
    """
    given = [name for name in _GANG_FIELDS if job.policy.scheduling.get(name) is not None]
    if job.settings.gang_scheduler or not given:
        return None
    fields = ", ".join(f"spec.runPolicy.schedulingPolicy.{name}" for name in given)
    message = f"{fields}: without effect, because the operator's setting training.gang_scheduler is empty"
    return Event("Warning", "SchedulingPolicyIgnored", message)


def minimum(job: TrainingJob) -> int:
    """Return how many Pods must get nodes at once: the job's own number, or all.

    As in v1, the number may be 0, or more than there are replicas: an elastic job may count on replicas that an
    autoscaler will add.
    """
    number = job.policy.scheduling.get("minAvailable")
    return job.total if number is None else int(number)


def _resources(job: TrainingJob) -> Json:
    """Return the policy's minimal resources, else the requests of the first `minimum` replicas."""
    amounts = job.policy.scheduling.get("minResources")
    if amounts:
        return {"minResources": amounts}
    counts = Counter(replica_id.role for replica_id in job.replica_ids[: minimum(job)])
    total: dict[str, Decimal] = {}
    for role, count in counts.items():
        for name, number in _requests(job.roles[role].template).items():
            total[name] = total.get(name, Decimal(0)) + number * count
    return {"minResources": {name: quantity(total[name]) for name in sorted(total)}} if total else {}


def _requests(template: Json) -> Mapping[str, Decimal]:
    """Add up the requests of a template's containers; a limit alone counts as request."""
    total: dict[str, Decimal] = {}
    for container in template["spec"]["containers"]:
        resources = mapping(container, "resources")
        requests = {**mapping(resources, "limits"), **mapping(resources, "requests")}
        for name, text in requests.items():
            total[name] = total.get(name, Decimal(0)) + amount(str(text))
    return total
