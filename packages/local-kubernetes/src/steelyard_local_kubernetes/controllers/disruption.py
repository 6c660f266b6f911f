"""The disruption controller's decision: how many Pods of a PodDisruptionBudget may be evicted now.

`apiserver/budgets.py` asks that status at each eviction, and takes one off.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, owner_references, read_status
from steelyard_kube.pods import is_ready
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.controllers.decision import with_condition
from steelyard_local_kubernetes.controllers.pods import matches

EVICTION_SECONDS = 120.0  # after which an evicted Pod that is still there counts again
Owner = Callable[[str, str], Json | None]  # kind and name, in the budget's namespace


def decide(
    budget: Json, pods: Iterable[Json], owner: Owner, now: datetime
) -> tuple[Json | None, float | None]:
    """Return the status that the budget should have, None where it has that, and the requeue time in seconds."""
    chosen = [pod for pod in pods if selects(budget, pod)]
    status = read_status(budget)
    evicted, again = _current_evictions(status, chosen, now)
    healthy = sum(
        is_ready(pod) and not is_deleting(pod) and pod["metadata"]["name"] not in evicted for pod in chosen
    )
    generation = budget["metadata"].get("generation", 1)
    try:
        expected = _count_expected(budget, chosen, owner)
    except UnknownScale as error:
        new_status = {**status, "observedGeneration": generation, "disruptionsAllowed": 0}
        condition = _condition("False", "SyncFailed", str(error))
    else:
        desired = _count_desired(budget["spec"], expected)
        allowed = max(healthy - desired, 0) if expected else 0
        counts = {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected}
        new_status = {**status, **counts, "disruptionsAllowed": allowed, "observedGeneration": generation}
        condition = (
            _condition("True", "SufficientPods") if allowed else _condition("False", "InsufficientPods")
        )
    new_status.pop("disruptedPods", None)
    if evicted:
        new_status["disruptedPods"] = evicted
    condition["observedGeneration"] = generation
    new_status["conditions"] = [
        {name: value for name, value in entry.items() if name != "lastProbeTime"}
        for entry in with_condition(list(sequence(status, "conditions")), condition, now)
    ]
    return (None if new_status == status else new_status), again


class UnknownScale(Exception):
    """A Pod whose controller has no number of replicas."""


def selects(budget: Json, pod: Json) -> bool:
    """Return whether the Pod is one of the budget's; an empty selector selects all, and none selects nothing."""
    selector = budget["spec"].get("selector")
    return selector is not None and matches(selector, pod["metadata"].get("labels"))


def _condition(status: str, reason: str, message: str = "") -> Json:
    return {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": message}


def _current_evictions(status: Json, pods: list[Json], now: datetime) -> tuple[dict[str, str], float | None]:
    """Return the Pods whose eviction is not seen yet, and the seconds until the first of them counts again."""
    names = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    left: dict[str, float] = {}
    for name, since in mapping(status, "disruptedPods").items():
        seconds = EVICTION_SECONDS - (now - parse_time(since)).total_seconds()
        if name in names and seconds > 0:
            left[name] = seconds
    return {name: status["disruptedPods"][name] for name in left}, min(left.values(), default=None)


def _count_expected(budget: Json, pods: list[Json], owner: Owner) -> int:
    """Return how many Pods there should be: those there are, or for a share those that their owners want."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable", 1), int):
        return len(pods)
    scales: dict[tuple[str, str], int] = {}
    for pod in pods:
        if (controller := _controller(pod)) is None:
            continue  # as on a real cluster: a Pod without a controller is not expected
        kind, name = controller
        scaled = owner(kind, name)
        # A Deployment's number counts while its ReplicaSets change.
        if scaled is not None and kind == "ReplicaSet" and (above := _controller(scaled)) is not None:
            kind, name = above
            scaled = owner(kind, name)
        if scaled is None:
            raise UnknownScale(f"found no scale of {kind} {name}")
        scales[kind, name] = int(scaled["spec"].get("replicas", 1))
    return sum(scales.values())


def _controller(obj: Json) -> tuple[str, str] | None:
    for reference in owner_references(obj):
        if reference.get("controller"):
            return str(reference["kind"]), str(reference["name"])
    return None


def _count_desired(spec: Json, expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(expected - _share(spec["maxUnavailable"], expected), 0)
    return _share(spec.get("minAvailable", 1), expected)


def _share(value: int | str, total: int) -> int:
    """Return a number of Pods, or a percentage of them rounded up."""
    return value if isinstance(value, int) else -(-int(value.removesuffix("%")) * total // 100)
