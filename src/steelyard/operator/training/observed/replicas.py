"""The replicas of a job as its Pods show them: what is new of each, which have fallen, how far they all are."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from steelyard.awake import pause_lasts
from steelyard.operator.children import Children
from steelyard.operator.desired import Precondition, unchanged
from steelyard.operator.training.model import Counts, Memory, Place, Replica, Tally, TrainingJob
from steelyard.operator.training.observed.pods import Seen, seen
from steelyard.operator.training.policies.restart import NO_END, Fall, within
from steelyard.operator.training.replica_objects import leader
from steelyard.types import Json

ENDED = frozenset({"Succeeded", "Failed"})
LAST_WORDS = timedelta(seconds=5)
"""Between the success of a job and the end of its leading replica, where that comes later."""


@dataclass(frozen=True)
class Crew:
    """A job's own Pods. `memory` is what the status says, before anything new is read from them."""

    job: TrainingJob
    children: Children

    @cached_property
    def pods(self) -> Mapping[Place, tuple[Seen, ...]]:
        """By replica, the newest attempt last."""
        found: dict[Place, tuple[Seen, ...]] = {}
        for each in self._seen:
            known = (*found.get(each.place, ()), each)
            found[each.place] = tuple(sorted(known, key=lambda one: one.attempt))
        return found

    @cached_property
    def _seen(self) -> tuple[Seen, ...]:
        own = self.children.pods_of(self.job.resource)
        return tuple(each for pod in own if (each := seen(pod, self.job)))

    @cached_property
    def nameless(self) -> tuple[Json, ...]:
        """Own Pods whose labels no longer say which replica they are: nothing can be made of them."""
        known = {each.uid for each in self._seen}
        own = self.children.pods_of(self.job.resource)
        return tuple(pod for pod in own if pod["metadata"]["uid"] not in known)

    @cached_property
    def orphaned(self) -> frozenset[str]:
        """The uids of Pods that the edge is about to adopt."""
        return frozenset(each["metadata"]["uid"] for each in self.children.orphans)

    def current(self, replica: Replica) -> Seen | None:
        """The Pod of the attempt that should be there."""
        for each in self.pods.get(replica.place, ()):
            if each.attempt == replica.attempt and replica.uid in {"", each.uid}:
                return each
        return None

    def outdated(self) -> Iterator[Seen]:
        """Pods that should go, as the status says: of an earlier attempt, or of a replica that is no more."""
        for each in self._seen:
            replica = self.job.memory.replicas.get(each.place)
            if replica is not None and each.attempt < replica.attempt:
                yield each


def followed(crew: Crew) -> Memory:
    """What the status remembers, with what the Pods show; without judging who has fallen."""
    memory = crew.job.memory
    replicas: dict[Place, Replica] = {}
    for place in crew.job.places:
        known = replace(memory.replicas.get(place, Replica(place)), pod=crew.job.replica_name(place))
        replicas[place] = _followed(crew, known)
    for place, pods in crew.pods.items():
        if place not in replicas:
            known = memory.replicas.get(place, Replica(place, pod=pods[-1].name))
            replicas[place] = _removed(known, pods[-1].attempt)
    adopted = {pod["metadata"]["name"] for pod in crew.children.orphans}
    for place, known in memory.replicas.items():
        if place not in replicas and known.pod in adopted:
            replicas[place] = known
    return replace(memory, replicas=replicas)


def _followed(crew: Crew, replica: Replica) -> Replica:
    newest = crew.pods.get(replica.place, ())[-1:]
    if newest and newest[0].attempt > replica.attempt:  # adopted, from a job that had got so far
        replica = replace(replica, attempt=newest[0].attempt, uid="", phase="Pending", in_place=0)
    found = crew.current(replica)
    if found is None or replica.phase in ENDED:
        return replica
    phase, code, reason = replica.phase, replica.exit_code, replica.reason
    if found.phase == "Succeeded" and not found.disruption:
        phase, code, reason = "Succeeded", 0, found.ended.reason if found.ended else ""
    elif found.phase != "Failed" and not found.disruption:
        waiting = found.waiting if found.phase == "Pending" else ""
        phase, reason = found.phase, waiting or _kept(replica)
    started = found.started or replica.started
    seen = (found.uid, found.node, started, phase, code, reason)
    if seen == (replica.uid, replica.node, replica.started, replica.phase, replica.exit_code, replica.reason):
        return replica  # the usual case, and a copy costs as much as all of this
    uid, node = found.uid, found.node
    return replace(replica, uid=uid, node=node, started=started, phase=phase, exit_code=code, reason=reason)


def _kept(replica: Replica) -> str:
    """The reason of its last end, not of a wait that is over."""
    return replica.reason if replica.exit_code is not None or replica.restarts else ""


def _removed(replica: Replica, attempt: int) -> Replica:
    """A replica that the job has no more, as long as its Pod is there: it is of the past, even if it comes back."""
    if replica.attempt > attempt:
        return replica
    return replace(replica, attempt=attempt + 1, uid="", phase="Pending", in_place=0)


def dropped(crew: Crew, memory: Memory) -> tuple[Precondition, ...]:
    """Requires that no Pod is left of a removed replica before the status forgets the replica.

    A new process may not have read that Pod yet; once forgotten, nothing would keep new Pods from meeting it.
    """
    known = crew.job.memory.replicas
    return tuple(
        Precondition("v1", "Pod", known[place].pod) for place in sorted(known.keys() - memory.replicas.keys())
    )


def raised(before: Memory, after: Memory) -> bool:
    """Whether a Pod that is there will be of the past: that is written down before anything is done."""
    return any(
        each.attempt > before.replicas.get(place, Replica(place)).attempt
        for place, each in after.replicas.items()
    )


# ---- who has fallen


def falls(crew: Crew, memory: Memory, now: datetime) -> tuple[Fall, ...]:
    """The replicas that failed, or were ended, since the status was written.

    One whose node is not heard of is waited for; but where others that start again with it fall meanwhile, it is why.
    """
    each = (_fall(crew, memory.replicas[place], now) for place in crew.job.places)
    found = tuple(fall for fall in each if fall is not None)
    return (*found, *_causes(crew, memory, found))


def _causes(crew: Crew, memory: Memory, found: Sequence[Fall]) -> Iterator[Fall]:
    fallen = {fall.place for fall in found}
    for place in crew.job.places:
        replica = memory.replicas[place]
        pod = crew.current(replica)
        if pod is None or pod.lost_since is None or place in fallen or replica.phase in ENDED:
            continue
        if fallen & within(crew.job, place, crew.job.roles[place.role].scope):
            yield _by_lost_node(replica, pod, pod.lost_since)


def _by_lost_node(replica: Replica, pod: Seen, since: datetime) -> Fall:
    return Fall(replica.place, replica.attempt, pod.name, pod.uid, since, disruption="NodeLost")


def _fall(crew: Crew, replica: Replica, now: datetime) -> Fall | None:
    if replica.phase in ENDED:
        return None
    found = crew.current(replica)
    if found is None:
        gone = Fall(replica.place, replica.attempt, replica.pod, replica.uid, now, disruption="Deleted")
        return gone if replica.uid and replica.uid not in crew.orphaned else None
    fall = Fall(replica.place, replica.attempt, found.name, found.uid, now, found.ended or NO_END)
    if found.disruption:
        return replace(fall, disruption=found.disruption, at=found.disrupted or now)
    if found.phase == "Failed":
        return replace(fall, at=fall.ended.at or now)
    if found.lost_since is not None and _given_up(crew.job, found.lost_since, now):
        return _by_lost_node(replica, found, found.lost_since)
    if found.in_place > replica.in_place:
        last = found.last or NO_END
        return replace(fall, ended=last, at=last.at or now, in_place=found.in_place)
    return None


def _given_up(job: TrainingJob, since: datetime, now: datetime) -> bool:
    return now >= since + timedelta(seconds=job.settings.node_lost_seconds)


def preconditions(crew: Crew, found: Iterable[Fall], restarted: Iterable[Place]) -> tuple[Precondition, ...]:
    """What must be so at the API itself before falls are put on record.

    Who vanished is gone; who was given up is as it was seen; and who starts again without having been seen is not
    there, so that no Pod of an earlier attempt can come to light beside the next one.
    """
    absent = {place for place in (*(fall.place for fall in found), *restarted) if not crew.pods.get(place)}
    given_up = [crew.current(_of(fall)) for fall in found if fall.disruption and fall.ended is NO_END]
    adopted = {each["metadata"]["name"] for each in crew.children.orphans}
    names = (name for place in sorted(absent) if (name := crew.job.replica_name(place)) not in adopted)
    return (
        *(Precondition("v1", "Pod", name) for name in names),
        *(unchanged(each.pod) for each in given_up if each is not None),
    )


def _of(fall: Fall) -> Replica:
    return Replica(fall.place, fall.attempt, uid=fall.uid)


# ---- how far they are


def tally(crew: Crew, memory: Memory) -> Tally:
    """Replicas by type: active are those whose Pod of the wanted attempt runs and is not being deleted."""
    counts = {role: _counts(crew, memory, role) for role in crew.job.roles}
    done = (each.place for each in _present(crew, memory) if each.phase == "Succeeded")
    return Tally(counts, frozenset(done))


def _present(crew: Crew, memory: Memory) -> Iterator[Replica]:
    return (memory.replicas[place] for place in crew.job.places if place in memory.replicas)


def _counts(crew: Crew, memory: Memory, role: str) -> Counts:
    own = [each for each in _present(crew, memory) if each.place.role == role]
    active = sum(
        each.phase not in ENDED and (pod := crew.current(each)) is not None and pod.active for each in own
    )
    return Counts(
        active,
        sum(each.phase == "Succeeded" for each in own),
        sum(each.phase == "Failed" for each in own),
    )


def last_words_due(crew: Crew, now: datetime) -> datetime | None:
    """Until when a job that has succeeded waits for the replica that leads it: its last words are the result.

    None where it has ended or is not there, and where it serves the others. MXNet's scheduler ends a moment before its
    workers.
    """
    leads = leader(crew.job)
    pods = crew.pods.get(leads, ()) if leads.role == "Worker" else ()
    if not pods or pods[-1].phase != "Running" or pods[-1].deleting is not None:
        return None
    ends = [each.ended.at for found in crew.pods.values() for each in found if each.ended and each.ended.at]
    awaited = ends and pause_lasts(max(ends), LAST_WORDS.total_seconds(), now)
    return max(ends) + LAST_WORDS if awaited else None


def results(crew: Crew) -> Json | None:
    """What the leading replica said at its end, if that is a JSON object."""
    for each in reversed(crew.pods.get(leader(crew.job), ())):
        if each.ended is not None and each.ended.message:
            try:
                said = json.loads(each.ended.message)
            except ValueError:
                return None
            return said if isinstance(said, dict) else None
    return None
