"""The kinds that built-in controllers manage: what each owns, by what it decides, and which object owns another.

`sync.py` carries a kind's decisions out, `run.py` and `caches.py` follow the changes that concern it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.objects import controller_uid, owner_references, read_finalizers, read_labels
from steelyard_kube.resource import (
    APP_WRAPPERS,
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    TRAINING,
    Resource,
)
from steelyard_local_kubernetes.controllers import (
    claim,
    cron_job,
    deployment,
    job,
    job_counts,
    replica_set,
    stateful_claims,
    stateful_set,
)
from steelyard_local_kubernetes.controllers.adoption import Adoption
from steelyard_local_kubernetes.controllers.app_wrapper import components
from steelyard_local_kubernetes.controllers.app_wrapper import decide as app_wrapper
from steelyard_local_kubernetes.controllers.decision import Decision
from steelyard_local_kubernetes.controllers.pods import is_active
from steelyard_local_kubernetes.controllers.ray import cluster as ray_cluster
from steelyard_local_kubernetes.controllers.ray import dashboard
from steelyard_local_kubernetes.controllers.ray import job as ray_job

Key = tuple[str, str]  # namespace, name


async def _list_none(cluster: Cluster, owner: Json, children: list[Json]) -> list[Json]:
    return []


def _match_labels(owner: Json) -> Json:
    return mapping(owner["spec"], "selector", "matchLabels")


def _job_labels(owner: Json) -> Json:
    return _match_labels(owner) or {"batch.kubernetes.io/controller-uid": owner["metadata"]["uid"]}


def _no_labels(owner: Json) -> Json:
    return {}


def _is_owned(owner: Json, obj: Json) -> bool:
    return controller_uid(obj) == str(owner["metadata"]["uid"])


@dataclass(frozen=True)
class RelatedObjects:
    """Further objects that a decision reads, chosen from all of the owner's namespace, or of the cluster."""

    resource: Resource
    belongs: Callable[[Json, Json], bool] | None
    """Predicate of whether the decision about an owner reads an object; None where changes only wake the controller."""


@dataclass(frozen=True, eq=False)  # each is one of its own: a key of every queue, which is quick that way
class Kind:
    """One controller: the kind that it manages, what objects of the kind own, and its decision."""

    resource: Resource
    children: Resource
    decide: Callable[[Json, list[Json], datetime, set[str]], Decision]
    labels: Callable[[Json], Json] = _match_labels  # by which the API lists the children
    related: tuple[RelatedObjects, ...] = ()
    observe: Callable[[Cluster, Json, list[Json]], Awaitable[list[Json]]] = _list_none
    """Further objects for an owner and its children, which no list gives: read one by one, or from outside the API."""
    adoptions: tuple[Adoption, ...] = ()


JOB = Kind(
    JOBS,
    PODS,
    job.decide,
    _job_labels,
    adoptions=(Adoption(PODS, claims=job.claims_pods, finalizer=job_counts.FINALIZER),),
)
REPLICA_SET = Kind(REPLICA_SETS, PODS, replica_set.decide, adoptions=(Adoption(PODS, fits=is_active),))
DEPLOYMENT = Kind(DEPLOYMENTS, REPLICA_SETS, deployment.decide, adoptions=(Adoption(REPLICA_SETS),))
CRON_JOB = Kind(CRON_JOBS, JOBS, cron_job.decide, _no_labels)
STATEFUL_SET = Kind(
    STATEFUL_SETS,
    PODS,
    stateful_set.decide,
    related=(
        RelatedObjects(CONTROLLER_REVISIONS, _is_owned),
        RelatedObjects(PERSISTENT_VOLUME_CLAIMS, stateful_claims.is_claim_of),
    ),
    adoptions=(
        Adoption(PODS, is_member=lambda owner, pod: stateful_set.pod_ordinal(owner, pod) is not None),
        Adoption(CONTROLLER_REVISIONS, releases=False),
    ),
)
CLAIM = Kind(
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    claim.decide,
    _no_labels,
    related=(RelatedObjects(PERSISTENT_VOLUMES, claim.is_volume_of),),
)
RAY_CLUSTER = Kind(
    RAY_CLUSTERS, PODS, ray_cluster.decide, ray_cluster.labels, related=(RelatedObjects(SERVICES, _is_owned),)
)
RAY_JOB = Kind(
    RAY_JOBS,
    RAY_CLUSTERS,
    ray_job.decide,
    ray_job.labels,
    related=(RelatedObjects(JOBS, _is_owned), RelatedObjects(RAY_CLUSTERS, ray_job.is_chosen)),
    observe=dashboard.observe,
)
APP_WRAPPER = Kind(
    APP_WRAPPERS,
    PODS,
    app_wrapper.decide,
    app_wrapper.labels,
    related=(
        RelatedObjects(PODS, components.is_pod_of),
        # They are read by `observe`.
        *(
            RelatedObjects(resource, None)
            for resource in (JOBS, RAY_CLUSTERS, RAY_JOBS, DEPLOYMENTS, *TRAINING)
        ),
    ),
    observe=components.observe,
)
KINDS = (
    JOB, REPLICA_SET, DEPLOYMENT, CRON_JOB, STATEFUL_SET, CLAIM, RAY_CLUSTER, RAY_JOB, APP_WRAPPER,
)  # fmt: skip


def owner_key(child: Json, owner: Resource) -> Key | None:
    """Return the key of the child's controller if that is of this kind."""
    controller = find_owner(child)
    return controller[1] if controller and controller[0] == owner.kind else None


def find_owner(child: Json) -> tuple[str, Key] | None:
    """Return the kind and the key of the child's controller.

    A Pod that still carries a Job's finalizer counts as that Job's even when its owner reference is gone: no other
    controller would remove the finalizer.
    """
    namespace = child["metadata"].get("namespace", "")
    for reference in owner_references(child):
        if reference.get("controller"):
            name = reference.get("name")
            return (reference.get("kind", ""), (namespace, name)) if name else None
    if job_counts.FINALIZER in read_finalizers(child):
        name = read_labels(child).get("batch.kubernetes.io/job-name")
        return (JOBS.kind, (namespace, name)) if name else None
    return None
