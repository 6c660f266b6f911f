"""Rights that the parts of the platform need at the Kubernetes API. The chart gives these and no more: a test compares
them with the audit log of a whole story.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from steelyard_common.types import Json
from steelyard_kube.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DL_JOBS,
    DYFF,
    ENDPOINT_SLICES,
    EVENTS,
    FRAMEWORKS,
    HORIZONTAL_POD_AUTOSCALERS,
    HTTP_ROUTES,
    INFERENCE_SESSIONS,
    INGRESSES,
    JOBS,
    LEASES,
    MODELS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    RAY_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    TRAINING,
    VALIDATING_WEBHOOKS,
    Resource,
)


class Right(NamedTuple):
    """Verbs on resources of one API group; `names`, where there are any, are the only objects it is for."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> Json:
        """Return the rule of a Role (rbac.authorization.k8s.io/v1, PolicyRule)."""
        rule: Json = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return rule | ({"resourceNames": list(self.names)} if self.names else {})


def allow(
    verbs: str, *resources: Resource, subresource: str = "", names: Sequence[str] = ()
) -> tuple[Right, ...]:
    """Return rights to the verbs, which blanks separate, on the resources or a subresource of them: one a group."""
    plurals: dict[str, list[str]] = {}
    for resource in resources:
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        plurals.setdefault(resource.group, []).append(plural)
    return tuple(
        Right(group, tuple(sorted(members)), tuple(verbs.split()), tuple(names))
        for group, members in plurals.items()
    )


_KUBEFLOW = tuple(resource for resource in TRAINING if resource != DL_JOBS)
_WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)

OPERATOR = (
    *allow("get list watch", *DYFF, DL_JOBS, FRAMEWORKS, *_KUBEFLOW),
    *allow("patch", *DYFF, DL_JOBS, *_KUBEFLOW, subresource="status"),
    *allow("create delete", INFERENCE_SESSIONS),
    *allow("create", MODELS),
    # spec.runPolicy.ttlSecondsAfterFinished
    *allow("delete", DL_JOBS, *_KUBEFLOW),
    *allow("create get list watch patch", CONFIG_MAPS),
    *allow("create delete get list watch patch", PODS, SERVICES),
    # Listed for a Job without a Pod: its events alone say what refuses the Pod.
    *allow("create list patch", EVENTS),
    *allow("create get list watch", DEPLOYMENTS),
    # A resource that was deleted, or a step that is tried again, ends its Job.
    *allow("create delete get list watch", JOBS),
)
"""Rights for workflows and training jobs."""
WEBHOOKS = allow("get delete", *_WEBHOOKS, names=["steelyard-ray"])
"""Rights to take away what an operator with the Ray side left, at each start of leading."""
MPI = (
    *allow("create get list watch", SERVICE_ACCOUNTS),
    *allow("create get list watch patch", ROLES, ROLE_BINDINGS),
    # A Role may give only what its maker has.
    *allow("create", PODS, subresource="exec"),
)
"""Rights for MPIJobs: their launcher has an account that may run commands in the workers."""
ELASTIC = allow("create delete get list watch patch", HORIZONTAL_POD_AUTOSCALERS)
"""Rights for PyTorchJobs with spec.elasticPolicy.metrics."""
RAY = (
    *allow("get list watch patch", RAY_CLUSTERS),
    # blockOwnerDeletion of what a cluster owns, where the API checks it, as OpenShift's does.
    *allow("update", RAY_CLUSTERS, subresource="finalizers"),
    *allow("get create patch", INGRESSES, NETWORK_POLICIES, CONFIG_MAPS, SECRETS, SERVICES),
    *allow("get list create patch", ROUTES, HTTP_ROUTES),
    *allow("create", ROUTES, subresource="custom-host"),
    *allow("get list", PODS),
    *allow("create patch", EVENTS),
    *allow("get list watch create patch", ENDPOINT_SLICES),
    *allow("create", ENDPOINT_SLICES, subresource="restricted"),
    *allow("get create patch delete", *_WEBHOOKS),
    *allow("create", TOKEN_REVIEWS, SUBJECT_ACCESS_REVIEWS),
)
"""Rights for the platform's side of Ray clusters."""
ORCHESTRATOR = (
    *allow("create get list", NAMESPACES),
    *allow("list", PODS),
    *allow("create get list patch delete", SECRETS),
    *allow("create", NETWORK_POLICIES),
    *allow("create delete get list watch", *DYFF),
)
"""Rights of the orchestrator: for the namespaces of accounts and the workflows in them."""
INFORMER = (
    *allow("list watch", *DYFF),
    *allow("get list watch", PODS),
    *allow("get", PODS, subresource="log"),
)
"""Rights of the informer: to follow the workflows of all accounts, and to keep the logs of runners in storage."""
LEADING = allow("create get update", LEASES)
"""Rights in the namespace of the installation: to lead, for each of the three."""
RIGHTS: Mapping[str, Sequence[Right]] = {
    "operator": (*OPERATOR, *WEBHOOKS),
    "mpi": MPI,
    "elastic": ELASTIC,
    "ray": RAY,
    "orchestrator": ORCHESTRATOR,
    "informer": INFORMER,
    "leading": LEADING,
}
"""Rights by the names that the chart's templates give them."""
