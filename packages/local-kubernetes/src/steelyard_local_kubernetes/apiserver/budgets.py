"""PodDisruptionBudgets at an eviction: refused where a budget allows none now, else taken off it.

`subresources.py` asks; the disruption controller counts again afterwards.
"""

from steelyard_common.types import Json, mapping
from steelyard_kube.objects import is_deleting, read_status
from steelyard_kube.pods import is_ready, is_terminal, read_phase
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.controllers.disruption import selects

BUCKET = "poddisruptionbudgets.policy"
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10


def charge(objects: Objects, pod: Json, *, dry_run: bool) -> None:
    """Raise the refusal of the Pod's budget, or take one disruption off it."""
    # The application loses nothing with a Pod that does not run yet, or that already ends.
    if is_deleting(pod) or is_terminal(pod) or read_phase(pod) == "Pending":
        return
    items = objects.store.bucket(BUCKET).items(pod["metadata"]["namespace"])
    budgets = [budget for budget in (item.parse() for item in items) if selects(budget, pod)]
    if not budgets:
        return
    if len(budgets) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise errors.Refusal(500, "InternalError", text)
    budget = budgets[0]
    if _is_exempt(budget, pod):
        return
    _check(budget)
    if not dry_run:
        _take(objects, budget, pod)


def _is_exempt(budget: Json, pod: Json) -> bool:
    """Return whether the budget does not count this Pod, since it is not ready."""
    if is_ready(pod):
        return False
    status = read_status(budget)
    desired = int(status.get("desiredHealthy", 0))
    enough = desired > 0 and int(status.get("currentHealthy", 0)) >= desired
    return enough or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"


def _check(budget: Json) -> None:
    name, status = budget["metadata"]["name"], read_status(budget)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(cause, _RETRY_SECONDS)
    if status.get("disruptionsAllowed", 0) <= 0:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        raise _refusal(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )


def _refusal(cause: str, seconds: int = 0) -> errors.Refusal:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return errors.Refusal(429, "TooManyRequests", _REFUSED, details)


def _take(objects: Objects, budget: Json, pod: Json) -> None:
    status = dict(read_status(budget))
    status["disruptionsAllowed"] -= 1
    evicted = {**mapping(status, "disruptedPods"), pod["metadata"]["name"]: objects.clock.stamp()}
    # Past the rules of an update: only the server's own count differs from what is stored.
    objects.store.put(BUCKET, {**budget, "status": {**status, "disruptedPods": evicted}})
