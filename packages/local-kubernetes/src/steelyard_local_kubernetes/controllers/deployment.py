"""The Deployment controller's decision: one ReplicaSet per template, and how replicas move from old to new.

Served: RollingUpdate with maxSurge and maxUnavailable, Recreate, minReadySeconds, progressDeadlineSeconds, the
revision annotation, revisionHistoryLimit and `paused`: meanwhile only `replicas` adds and removes Pods.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from math import ceil, floor

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_labels, read_status
from steelyard_local_kubernetes.controllers.decision import FAILURE, Decision, seconds_until, with_condition
from steelyard_local_kubernetes.controllers.pods import make_condition, owner_reference, suffix
from steelyard_local_kubernetes.controllers.replica_set import replicas

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"


@dataclass(frozen=True)
class Sets:
    """A Deployment's ReplicaSets: the one of its template, if there is one yet, and the others."""

    new: Json | None
    old: tuple[Json, ...]

    @property
    def all(self) -> tuple[Json, ...]:
        return (*((self.new,) if self.new else ()), *self.old)


def decide(
    deployment: Json, replica_sets: list[Json], now: datetime, taken: set[str] | None = None
) -> Decision:
    """Decide the actions for `deployment`, whose own ReplicaSets are `replica_sets`."""
    if deployment["metadata"].get("deletionTimestamp"):
        return Decision()
    template = _without_hash(deployment)
    # The oldest, as on a cluster: one that was adopted may have another hash, or none.
    same = (replica_set for replica_set in replica_sets if _without_hash(replica_set) == template)
    new = min(same, key=_age, default=None)
    sets = Sets(new, tuple(replica_set for replica_set in replica_sets if replica_set is not new))
    collisions = _collisions(deployment, taken or set())
    mark = template_hash(deployment, collisions)
    status, wait = _status(deployment, sets, now)
    if collisions:
        status["collisionCount"] = collisions
    changed = status if status != read_status(deployment) else None
    if deployment["spec"].get("paused"):
        scales = _scales_while_paused(deployment, sets)
        patches = [(obj, {"spec": {"replicas": count}}) for obj, count in scales if count != replicas(obj)]
        return Decision(status=changed, patch=tuple(patches), delete=_surplus_history(deployment, sets))
    create: tuple[Json, ...] = ()
    scale = _scales(deployment, sets)
    if new is None and not (_recreates(deployment) and _pod_count(sets.old)):
        create = (_replica_set(deployment, mark, sets, scale.pop("", 0)),)
    patches = []
    for replica_set in sets.all:
        count = scale.get(replica_set["metadata"]["name"], replicas(replica_set))
        patch: Json = {} if count == replicas(replica_set) else {"spec": {"replicas": count}}
        if replica_set is sets.new and _is_rolled_back(sets):
            patch["metadata"] = {"annotations": _next_revision(sets)}
        if patch:
            patches.append((replica_set, patch))
    revision: Json | None = None
    if sets.new is not None and not _is_rolled_back(sets) and _revision(deployment) != _revision(sets.new):
        revision = {REVISION: str(_revision(sets.new))}
    return Decision(
        status=changed,
        annotations=revision,  # by the status: a patch of the Deployment would begin a new generation
        create=create,
        patch=tuple(patches),
        delete=_surplus_history(deployment, sets),
        requeue_after=wait,
    )


def template_hash(deployment: Json, collisions: int = 0) -> str:
    template = json.dumps(deployment["spec"]["template"], sort_keys=True, separators=(",", ":"))
    return suffix(template, *((collisions,) if collisions else ()), length=10)


def _without_hash(owner: Json) -> Json:
    """The template without the label that makes the Pods of one ReplicaSet its own."""
    template: Json = owner["spec"]["template"]
    labels = read_labels(template)
    if HASH not in labels:
        return template
    labels = {name: value for name, value in labels.items() if name != HASH}
    return {**template, "metadata": {**template["metadata"], "labels": labels}}


def _age(replica_set: Json) -> tuple[str, str]:
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def _collisions(deployment: Json, taken: set[str]) -> int:
    """Return how often the name of the new ReplicaSet turned out to belong to another object."""
    count = int(read_status(deployment).get("collisionCount") or 0)
    while _name(deployment, template_hash(deployment, count)) in taken:
        count += 1
    return count


def _name(deployment: Json, mark: str) -> str:
    return f"{deployment['metadata']['name'][:242]}-{mark}"


def _recreates(deployment: Json) -> bool:
    return bool(mapping(deployment["spec"], "strategy").get("type") == "Recreate")


def _pod_count(sets: tuple[Json, ...]) -> int:
    return sum(
        max(replicas(replica_set), read_status(replica_set).get("replicas") or 0) for replica_set in sets
    )


def _available(replica_set: Json) -> int:
    return int(read_status(replica_set).get("availableReplicas") or 0)


def _bounds(deployment: Json) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers of Pods; never both 0."""
    rolling = mapping(deployment["spec"], "strategy", "rollingUpdate")
    desired = replicas(deployment)

    def number(value: int | str | None, up: bool) -> int:
        value = "25%" if value is None else value
        if isinstance(value, int):
            return value
        share = int(value.removesuffix("%")) * desired / 100
        return ceil(share) if up else floor(share)

    surge, unavailable = number(rolling.get("maxSurge"), True), number(rolling.get("maxUnavailable"), False)
    return surge, unavailable if surge or unavailable else 1


def _scales(deployment: Json, sets: Sets) -> dict[str, int]:
    """The replicas that each ReplicaSet should have now, by its name; the one still to be made is ''."""
    desired = replicas(deployment)
    new_name = sets.new["metadata"]["name"] if sets.new else ""
    if _recreates(deployment):
        return {new_name: desired, **{replica_set["metadata"]["name"]: 0 for replica_set in sets.old}}
    surge, unavailable = _bounds(deployment)
    old_total = sum(map(replicas, sets.old))
    new_now = replicas(sets.new) if sets.new else 0
    room = desired + surge - old_total
    scales = {new_name: min(desired, max(new_now, room))}
    scales |= _shrunk(sets, desired - unavailable, new_now)
    return scales


def _scales_while_paused(deployment: Json, sets: Sets) -> list[tuple[Json, int]]:
    """The replicas of each ReplicaSet while the Deployment is paused: the total is the desired number, the shares
    stay."""
    desired = replicas(deployment)
    active = [replica_set for replica_set in sets.all if replicas(replica_set)]
    if len(active) < 2:
        latest = sets.new or max(sets.old, key=_age, default=None)
        chosen = active[0] if active else latest
        return [(chosen, desired)] if chosen is not None else []
    if sets.new is not None and replicas(sets.new) == desired == _available(sets.new):
        return [(replica_set, 0) for replica_set in sets.old]
    if _recreates(deployment):
        return []
    there = sum(map(replicas, active))
    most = desired + _bounds(deployment)[0] if desired else 0
    active.sort(key=replicas, reverse=True)
    shares = [round(replicas(replica_set) * most / there) for replica_set in active]
    shares[0] += most - sum(shares)
    return [(replica_set, max(share, 0)) for replica_set, share in zip(active, shares, strict=True)]


def _shrunk(sets: Sets, minimum: int, new_now: int) -> dict[str, int]:
    """Old Pods that are not available go first: nobody loses them. Available ones go as far as `minimum` allows."""
    new_available = _available(sets.new) if sets.new else 0
    spare = max(sum(map(replicas, sets.old)) + new_available - minimum, 0) if new_now else 0
    lossless = max(new_available + sum(map(_available, sets.old)) - minimum, 0) if new_now else 0
    result = {}
    for old_set in sorted(
        sets.old, key=lambda replica_set: (_available(replica_set), replica_set["metadata"]["name"])
    ):
        has, available = replicas(old_set), min(_available(old_set), replicas(old_set))
        broken = min(has - available, spare)
        spare -= broken
        whole = min(available, lossless, spare)
        spare, lossless = spare - whole, lossless - whole
        result[old_set["metadata"]["name"]] = has - broken - whole
    return result


def _replica_set(deployment: Json, mark: str, sets: Sets, count: int) -> Json:
    spec = deployment["spec"]
    template = json.loads(json.dumps(spec["template"]))
    labels = {**read_labels(template), HASH: mark}
    template["metadata"] = {**mapping(template, "metadata"), "labels": labels}
    selector = json.loads(json.dumps(spec["selector"]))
    selector["matchLabels"] = {**mapping(selector, "matchLabels"), HASH: mark}
    replica_set_spec: Json = {"replicas": count, "selector": selector, "template": template}
    if spec.get("minReadySeconds"):
        replica_set_spec["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": _name(deployment, mark),
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(max(map(_revision, sets.all), default=0) + 1)},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": replica_set_spec,
    }


def _revision(obj: Json) -> int:
    text = read_annotations(obj).get(REVISION) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0  # anybody may write one


def _is_rolled_back(sets: Sets) -> bool:
    """Return whether the template is that of an older revision, which then becomes the newest one."""
    return sets.new is not None and any(_revision(sets.new) <= _revision(old) for old in sets.old)


def _next_revision(sets: Sets) -> Json:
    """Annotations of a ReplicaSet whose template is taken up again; `kubectl rollout history` reads them."""
    assert sets.new is not None
    earlier = [read_annotations(sets.new).get(HISTORY), read_annotations(sets.new).get(REVISION)]
    number = max(map(_revision, sets.old)) + 1
    return {REVISION: str(number), HISTORY: ",".join(filter(None, earlier))}


def _surplus_history(deployment: Json, sets: Sets) -> tuple[Json, ...]:
    """Empty old ReplicaSets beyond the history that is kept."""
    keep = deployment["spec"].get("revisionHistoryLimit")
    empty = sorted((replica_set for replica_set in sets.old if not _pod_count((replica_set,))), key=_revision)
    return tuple(empty[: max(len(empty) - (10 if keep is None else int(keep)), 0)])


def _status(deployment: Json, sets: Sets, now: datetime) -> tuple[Json, float | None]:
    stored = read_status(deployment)
    desired = replicas(deployment)

    def total(field: str) -> int:
        return sum(read_status(replica_set).get(field) or 0 for replica_set in sets.all)

    available = total("availableReplicas")
    # As Kubernetes counts: of all that the ReplicaSets are to have, also beyond what the Deployment wants.
    asked = sum(map(replicas, sets.all)) if sets.new else desired
    updated = int(read_status(sets.new).get("replicas") or 0)
    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": updated,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(asked - available, 0),
    }
    status: Json = {key: value for key, value in counts.items() if value}
    status["observedGeneration"] = deployment["metadata"].get("generation", 1)
    conditions = list(sequence(stored, "conditions"))
    enough = available >= desired - (0 if _recreates(deployment) else _bounds(deployment)[1])
    if enough:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    conditions = with_condition(
        conditions,
        {"type": "Available", "status": str(enough), "reason": reason, "message": message},
        now,
        stamp="lastUpdateTime",
    )
    complete = updated == desired == available and counts["replicas"] == desired and sets.new is not None
    progressing, wait = _progress(deployment, counts, complete, now)
    conditions = with_condition(conditions, progressing, now, stamp="lastUpdateTime")
    status["conditions"] = [
        *(condition for condition in conditions if condition["type"] != FAILURE),
        *_failures(deployment, sets),
    ]
    return status, wait


def _failures(deployment: Json, sets: Sets) -> list[Json]:
    """Return what keeps a ReplicaSet, or the Deployment itself, from making what it lacks."""
    failures = [failure for replica_set in sets.all if (failure := make_condition(replica_set, FAILURE))]
    if not failures and sets.new is None and (own := make_condition(deployment, FAILURE)):
        failures = [own]
    return [{"lastUpdateTime": failure.get("lastTransitionTime"), **failure} for failure in failures[:1]]


def _progress(
    deployment: Json, counts: dict[str, int], complete: bool, now: datetime
) -> tuple[Json, float | None]:
    name = deployment["metadata"]["name"]

    def progressing_condition(status: str, reason: str, message: str) -> Json:
        return {"type": "Progressing", "status": status, "reason": reason, "message": message}

    if deployment["spec"].get("paused"):
        return progressing_condition("Unknown", "DeploymentPaused", "Deployment is paused"), None
    if complete:
        return progressing_condition(
            "True", "NewReplicaSetAvailable", f'Deployment "{name}" has successfully progressed.'
        ), None
    stored = make_condition(deployment, "Progressing")
    counters = ", ".join(f"{key} {value}" for key, value in counts.items())
    moving = progressing_condition(
        "True", "ReplicaSetUpdated", f'Deployment "{name}" is progressing: {counters}.'
    )
    deadline = deployment["spec"].get("progressDeadlineSeconds")
    deadline = 600.0 if deadline is None else float(deadline)
    late = progressing_condition(
        "False", "ProgressDeadlineExceeded", f"{moving['message']} No progress for {deadline:.0f} s."
    )
    if stored is None or stored["message"] not in {moving["message"], late["message"]}:
        return moving, deadline  # something moved, so the clock starts again
    if stored["reason"] == late["reason"]:
        return late, None
    left = seconds_until(stored["lastUpdateTime"], deadline, now)
    return (moving, left) if left > 0 else (late, None)
