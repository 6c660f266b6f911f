"""The StatefulSet controller's decision: Pods with numbers and claims of their own, one revision after the other.

`sync.py` calls `decide` with the StatefulSet, its Pods and ControllerRevisions, and the claims of its templates.
Order, partition, revisions and counts are those of Kubernetes 1.34: with OrderedReady one Pod at a time, each ready
before the next; an update goes from the highest number down to the partition.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import (
    is_deleting,
    read_annotations,
    read_labels,
    read_status,
)
from steelyard_kube.pods import is_ready, read_phase
from steelyard_local_kubernetes.controllers import stateful_claims as claims_of
from steelyard_local_kubernetes.controllers.decision import (
    FAILURE,
    Decision,
    Event,
    batch,
    most_pods,
    too_many_pods,
    with_condition,
)
from steelyard_local_kubernetes.controllers.pods import owner_reference, pod_from_template, suffix
from steelyard_local_kubernetes.controllers.replica_set import available_in, replicas

REVISION = "controller-revision-hash"
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
HASH = "controller.kubernetes.io/hash"


@dataclass(frozen=True)
class Revisions:
    """Revision that Pods had, and the one of the present template."""

    current: Json
    update: Json


@dataclass(frozen=True)
class Step:
    """Next writes for the Pods; an ordered set waits after them."""

    create: tuple[Json, ...] = ()
    patch: tuple[tuple[Json, Json], ...] = ()
    delete: tuple[Json, ...] = ()
    waits: bool = False
    events: tuple[Event, ...] = ()

    def __add__(self, other: "Step") -> "Step":
        return Step(
            self.create + other.create,
            self.patch + other.patch,
            self.delete + other.delete,
            self.waits or other.waits,
            self.events + other.events,
        )


def decide(sset: Json, children: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `sset`. `taken`: names of Pods and claims that exist and belong to others."""
    if is_deleting(sset):
        return Decision()
    by_kind: dict[str, list[Json]] = {"Pod": [], "ControllerRevision": [], "PersistentVolumeClaim": []}
    for child in children:
        by_kind[child["kind"]].append(child)
    history = sorted(by_kind["ControllerRevision"], key=_age)
    collisions = _collisions(sset, taken or set())
    revision_now = _new_revision(sset, history, collisions)
    same = [revision for revision in history if revision["data"] == revision_now["data"]]
    if not same:
        return Decision(create=(revision_now,))
    if same[-1] is not history[-1]:  # back to an earlier template: its revision becomes the newest
        return Decision(patch=((same[-1], {"revision": revision_now["revision"]}),))
    named = {revision["metadata"]["name"]: revision for revision in history}
    revisions = Revisions(named.get(read_status(sset).get("currentRevision"), same[-1]), same[-1])
    pods = [pod for pod in by_kind["Pod"] if pod_ordinal(sset, pod) is not None]
    claims = {claim["metadata"]["name"]: claim for claim in by_kind["PersistentVolumeClaim"]}
    planner = _Planner(sset, pods, claims, revisions, now, taken or set())
    step = planner.plan()
    few = batch(len(pods))
    status = _status(sset, pods, revisions, now, collisions)
    return Decision(
        status=status if status != read_status(sset) else None,
        create=step.create,
        patch=step.patch,
        delete=step.delete[:few] + _surplus_revisions(sset, history, pods, revisions),
        events=step.events,
        requeue_after=planner.requeue_after,
        more=planner.more or len(step.delete) > few,
    )


# ---- numbers


def _start(sset: Json) -> int:
    return int(mapping(sset["spec"], "ordinals").get("start") or 0)


def _most(sset: Json) -> int:
    """Return how many Pods the set has at most. Its claims are copied for each of them, too."""
    return most_pods({key: sset["spec"].get(key) for key in ("template", "volumeClaimTemplates")})


def pod_ordinal(sset: Json, pod: Json) -> int | None:
    """Return the number in the name of a Pod; None where it is not one of the set's names."""
    base, _, number = str(pod["metadata"]["name"]).rpartition("-")
    plain = number.isascii() and number.isdecimal() and len(number) < 10
    return int(number) if base == sset["metadata"]["name"] and plain else None


def _is_wanted(sset: Json, pod: Json) -> bool:
    number = pod_ordinal(sset, pod)
    return number is not None and 0 <= number - _start(sset) < replicas(sset)


# ---- revisions


def _age(revision: Json) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return int(revision.get("revision") or 0), metadata.get("creationTimestamp") or "", metadata["name"]


def _collisions(sset: Json, taken: set[str]) -> int:
    count = int(read_status(sset).get("collisionCount") or 0)
    while _revision_name(sset, count) in taken:
        count += 1
    return count


def _template_data(sset: Json) -> Json:
    return {"spec": {"template": {**sset["spec"]["template"], "$patch": "replace"}}}


def _revision_hash(sset: Json, collisions: int) -> str:
    text = json.dumps(_template_data(sset), sort_keys=True, separators=(",", ":"))
    return suffix(text, *([collisions] if collisions else []), length=10)


def _revision_name(sset: Json, collisions: int) -> str:
    return f"{sset['metadata']['name'][:223]}-{_revision_hash(sset, collisions)}"


def _new_revision(sset: Json, history: list[Json], collisions: int) -> Json:
    newest = _age(history[-1])[0] if history else 0
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": _revision_name(sset, collisions),
            "namespace": sset["metadata"]["namespace"],
            "labels": {**read_labels(sset["spec"]["template"]), HASH: _revision_hash(sset, collisions)},
            "annotations": read_annotations(sset),
            "ownerReferences": [owner_reference(sset)],
        },
        "data": _template_data(sset),
        "revision": newest + 1,
    }


def _surplus_revisions(
    sset: Json, history: list[Json], pods: list[Json], revisions: Revisions
) -> tuple[Json, ...]:
    """Revisions that nothing uses, beyond the history that is kept."""
    used = {read_labels(pod).get(REVISION) for pod in pods}
    used |= {revisions.current["metadata"]["name"], revisions.update["metadata"]["name"]}
    unused = [revision for revision in history if revision["metadata"]["name"] not in used]
    limit = sset["spec"].get("revisionHistoryLimit")
    if limit is not None and limit < 0:  # keeps all, as the server's warning says
        return ()
    return tuple(unused[: max(len(unused) - (10 if limit is None else int(limit)), 0)])


# ---- Pods


class _Planner:
    """One reconciliation of all Pods of the set."""

    def __init__(
        self,
        sset: Json,
        pods: list[Json],
        claims: dict[str, Json],
        revisions: Revisions,
        now: datetime,
        taken: set[str],
    ) -> None:
        self.sset, self.claims, self.revisions, self.now, self.taken = sset, claims, revisions, now, taken
        self.ordered = sset["spec"].get("podManagementPolicy") != "Parallel"
        self.minimum = float(sset["spec"].get("minReadySeconds") or 0)
        by_number = {pod_ordinal(sset, pod): pod for pod in pods if _is_wanted(sset, pod)}
        numbers = range(_start(sset), _start(sset) + min(replicas(sset), _most(sset)))
        self.replicas = [(number, by_number.get(number)) for number in numbers]
        rest = [pod for pod in pods if not _is_wanted(sset, pod)]
        self.condemned = sorted(rest, key=lambda pod: pod_ordinal(sset, pod) or 0, reverse=True)
        self.room, self.more = batch(len(pods)), False
        waits = [wait for pod in pods if is_ready(pod) and (wait := available_in(pod, self.minimum, now)) > 0]
        self.requeue_after = min(waits, default=None)

    def plan(self) -> Step:
        done = Step()
        for number, pod in self.replicas:
            done += self._missing(number) if pod is None else self._present(pod)
            if done.waits and self.ordered:
                return done
        for pod in self.condemned:
            done += Step(patch=self._owners(pod))
        done += self._scale_down()
        # Pods of this reconciliation are not available yet, so the update of the others comes after them.
        return done if done.create or (done.waits and self.ordered) else done + self._update()

    def _is_available(self, pod: Json) -> bool:
        return is_ready(pod) and available_in(pod, self.minimum, self.now) <= 0

    def _missing(self, number: int) -> Step:
        name = f"{self.sset['metadata']['name']}-{number}"
        if name in self.taken:
            text = f"create Pod {name} in StatefulSet {self.sset['metadata']['name']} failed error: "
            text += f'pods "{name}" already exists'
            self.requeue_after = min(self.requeue_after or 10.0, 10.0)
            return Step(waits=True, events=(Event("FailedCreate", text, "Warning"),))
        if self.room <= 0:
            self.more = True
            return Step(waits=True)
        claims = claims_of.make_claims(self.sset, number)
        # A claim that goes with an earlier Pod of this name would be deleted under the new one.
        if any(claims_of.is_stale(self.claims.get(claim["metadata"]["name"]), name) for claim in claims):
            self.requeue_after = min(self.requeue_after or 1.0, 1.0)
            return Step(waits=True)
        self.room -= 1
        return Step(create=(*self._absent(claims), self._pod(number, name)), waits=True)

    def _absent(self, claims: list[Json]) -> tuple[Json, ...]:
        there = self.claims.keys() | self.taken
        return tuple(claim for claim in claims if claim["metadata"]["name"] not in there)

    def _present(self, pod: Json) -> Step:
        if read_phase(pod) in ("Failed", "Succeeded"):
            return Step(delete=() if is_deleting(pod) else (pod,), waits=True)
        claims: tuple[Json, ...] = ()
        if read_phase(pod) == "Pending":
            claims = self._absent(claims_of.make_claims(self.sset, pod_ordinal(self.sset, pod) or 0))
        waits = is_deleting(pod) or read_phase(pod) != "Running" or not self._is_available(pod)
        return Step(
            create=claims, patch=self._owners(pod) if not waits or not self.ordered else (), waits=waits
        )

    def _owners(self, pod: Json) -> tuple[tuple[Json, Json], ...]:
        """Return the patches of the Pod's claims that keep `persistentVolumeClaimRetentionPolicy`."""
        names = (
            claim["metadata"]["name"]
            for claim in claims_of.make_claims(self.sset, pod_ordinal(self.sset, pod) or 0)
        )
        claims = [self.claims[name] for name in names if name in self.claims]
        scaled_down = not _is_wanted(self.sset, pod)
        patches = ((claim, claims_of.owners_patch(self.sset, pod, claim, scaled_down)) for claim in claims)
        return tuple((claim, patch) for claim, patch in patches if patch is not None)

    def _scale_down(self) -> Step:
        if not self.ordered:
            return Step(delete=tuple(pod for pod in self.condemned if not is_deleting(pod)))
        if not self.condemned:
            return Step()
        pod = self.condemned[0]
        unhealthy = [
            other for _, other in self.replicas if other is not None and not self._is_available(other)
        ]
        unhealthy += [
            other for other in reversed(self.condemned) if not self._is_available(other) or is_deleting(other)
        ]
        # Only the first Pod that is not well may go: the others are waited for.
        blocked = not self._is_available(pod) and not (unhealthy and unhealthy[0] is pod)
        return Step(delete=() if is_deleting(pod) or blocked else (pod,), waits=True)

    def _update(self) -> Step:
        strategy = self.sset["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return Step()
        partition = int(mapping(strategy, "rollingUpdate").get("partition") or 0)
        for _, pod in reversed(self.replicas[partition:]):
            if pod is None:
                return Step()
            if read_labels(pod).get(REVISION) != self.revisions.update["metadata"][
                "name"
            ] and not is_deleting(pod):
                return Step(delete=(pod,))
            if is_deleting(pod) or not self._is_available(pod):
                return Step()
        return Step()

    def _pod(self, number: int, name: str) -> Json:
        strategy = self.sset["spec"].get("updateStrategy") or {}
        partition = int(mapping(strategy, "rollingUpdate").get("partition") or 0)
        # Below the partition a Pod that is lost comes back as it was.
        old = strategy.get("type") != "OnDelete" and number < _start(self.sset) + partition
        revision = self.revisions.current if old else self.revisions.update
        template = {
            key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"
        }
        labels = {POD_NAME: name, POD_INDEX: str(number), REVISION: revision["metadata"]["name"]}
        owner = {**self.sset, "spec": {**self.sset["spec"], "template": template}}
        pod = pod_from_template(owner, name, labels=labels)
        pod["spec"]["hostname"] = name
        if service := self.sset["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = service
        if volumes := claims_of.volumes(self.sset, number, sequence(pod["spec"], "volumes")):
            pod["spec"]["volumes"] = volumes
        return pod


# ---- status


def _status(sset: Json, pods: list[Json], revisions: Revisions, now: datetime, collisions: int) -> Json:
    stored = read_status(sset)
    minimum = float(sset["spec"].get("minReadySeconds") or 0)
    ready = [pod for pod in pods if read_phase(pod) == "Running" and is_ready(pod)]
    living = [read_labels(pod).get(REVISION) for pod in pods if not is_deleting(pod)]
    current, update = revisions.current["metadata"]["name"], revisions.update["metadata"]["name"]
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": living.count(current),
        "updatedReplicas": living.count(update),
    }
    rolling = (sset["spec"].get("updateStrategy") or {}).get("type") != "OnDelete"
    if rolling and counts["updatedReplicas"] == len(ready) == len(pods) == replicas(sset):
        counts["currentReplicas"], current = counts["updatedReplicas"], update
    status: Json = {
        "observedGeneration": sset["metadata"].get("generation", 1),
        "replicas": len(pods),
        "availableReplicas": sum(available_in(pod, minimum, now) <= 0 for pod in ready),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collisions,
    }
    status |= {key: number for key, number in counts.items() if number}
    conditions = [entry for entry in sequence(stored, "conditions") if entry.get("type") != FAILURE]
    if replicas(sset) > (most := _most(sset)):
        known = sequence(stored, "conditions")
        conditions = with_condition(known, too_many_pods(most), now, stamp="lastTransitionTime")
    return status | ({"conditions": conditions} if conditions else {})
