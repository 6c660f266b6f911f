"""One training job of any kind: what should exist for it now. Pure: the edge carries it out.

What is newly found (a failure, a suspension, a replica too many) is written down first, and nothing else done in that
look; the next one acts on what the status says. So an operator that dies between any two calls neither loses a count
nor doubles one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from steelyard.kube.objects import controller_of
from steelyard.operator.children import Children
from steelyard.operator.desired import Desired, Event
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import desired_objects as wanted
from steelyard.operator.training import drift as upkeep
from steelyard.operator.training import output_folder, outputs, parse, spec_types, status, validate
from steelyard.operator.training.frameworks import ALL, definition
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.model import Invalid, Memory, Tally, TrainingJob
from steelyard.operator.training.observed import ownership, replicas
from steelyard.operator.training.observed.replicas import Crew
from steelyard.operator.training.policies import back_off, clean_up, deadline, gang, ports, restart, suspend
from steelyard.types import Json

ELSEWHERE = "kueue.x-k8s.io/multikueue"
"""`managedBy`: the job runs on another cluster."""


def reconcile(resource: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """`children` are the job's own, what it may adopt, and what it has to let go."""
    if _runs_elsewhere(resource):
        return Desired(status=dict(resource.get("status") or {}))
    try:
        job = read(resource, settings)
    except definition.NoSuchFramework as missing:  # who applies both at once may get the job in first
        told = Event("Warning", "FrameworkMissing", str(missing))
        return Desired(status=dict(resource.get("status") or {}), events=(told,))
    except Invalid as invalid:
        return _refused(resource, children, invalid, now)
    crew = Crew(job, children)
    conditions = job.memory.conditions
    if status.finished(conditions):
        return _after_the_end(crew, now, settings)
    if suspend.wanted(job) or suspend.is_on(job.memory):
        return _suspended(crew, now)
    if not status.holds(conditions, "Created"):
        return _begun(crew, now)
    kept = upkeep.patches(wanted.besides(job), children)
    return replace(_at_work(crew, now), patch=(*ownership.claims(resource, children), *kept))


def _runs_elsewhere(resource: Json) -> bool:
    spec = resource.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    return isinstance(policy, dict) and policy.get("managedBy") == ELSEWHERE


def read(resource: Json, settings: OperatorSettings) -> TrainingJob:
    """Raises Invalid for what cannot run as it is written; a job that has ended is not judged again."""
    resource = spec_types.checked(resource)
    job = deadline.awake(parse.job_of(resource, framework_of(resource, settings), settings), settings.sleeps)
    if not status.finished(job.memory.conditions):
        validate.check(job)
        output_folder.check(job, settings)
        ports.assign(job, job.memory)
    return job


def framework_of(resource: Json, settings: OperatorSettings) -> Framework:
    """One of ours, or what a DLJob's own definition says."""
    known = ALL.get(resource["kind"])
    return definition.framework_of(resource, settings.frameworks) if known is None else known


def _refused(resource: Json, children: Children, invalid: Invalid, now: datetime) -> Desired:
    """What cannot be read any more does not go on running."""
    wrong = any(
        each["type"] == "Failed" and each["reason"].endswith("FailedValidation")
        for each in (resource.get("status") or {}).get("conditions") or ()
    )
    said = status.invalid(resource, str(invalid), now)
    if said == resource.get("status") and not wrong:  # it had ended before
        return Desired(status=said)
    uid = resource["metadata"]["uid"]
    running = (*children.pods, *children.of_kind("Service"))
    own = (each for each in running if (controller_of(each) or {}).get("uid") == uid)
    return Desired(
        status=said, delete=tuple(each for each in own if not each["metadata"].get("deletionTimestamp"))
    )


# ---- before and after


def _begun(crew: Crew, now: datetime) -> Desired:
    """First what is to be known of the job is written down: its Pods are made from that."""
    job = crew.job
    memory = replace(replicas.followed(crew), started=now, framework=job.framework.definition)
    memory = ports.assign(job, memory)
    ignored = gang.ignored(job)
    return replace(_told(crew, memory, [status.created(job)], now), events=(ignored,) if ignored else ())


def _suspended(crew: Crew, now: datetime) -> Desired:
    job, memory = crew.job, replicas.followed(crew)
    if not suspend.wanted(job):
        memory, changes = suspend.ended(job, memory, now)
        return _told(crew, memory, changes, now)
    if suspend.is_on(memory):
        gone = clean_up.everything(job, crew.children)
        return replace(_told(crew, memory, (), now), delete=gone, force_delete=wanted.stuck(crew, now))
    memory, changes = suspend.begun(job, replace(memory, framework=job.framework.definition))
    return _told(crew, memory, [status.created(job), *changes], now)


def _after_the_end(crew: Crew, now: datetime, settings: OperatorSettings) -> Desired:
    """Nothing of what the job came to changes any more; its output may go on its way, which the TTL awaits."""
    job = crew.job
    said: Json = dict(job.resource["status"])
    succeeded = status.holds(job.memory.conditions, "Succeeded")
    following = outputs.after(job, crew.children, now, settings) if succeeded else None
    delete, delete_resource, requeue_at = clean_up.finished(job, crew.children, now)
    going = any(pod["metadata"].get("deletionTimestamp") for pod in crew.children.pods)
    looks = [requeue_at, *(wanted.looks(crew, Memory()) if going else ())]
    if following is not None:
        said["outputs"] = following.status
        looks.append(following.requeue_at)
    return Desired(
        status=said,
        create=following.create if following else (),
        delete=delete,
        delete_resource=delete_resource and not (following and following.pending),
        force_delete=wanted.stuck(crew, now) if going else (),
        requeue_at=_next(now, looks),
    )


# ---- at work


def _at_work(crew: Crew, now: datetime) -> Desired:
    job, memory = crew.job, replicas.followed(crew)
    tally = replicas.tally(crew, memory)
    standing = job.framework.standing(job, tally)
    if standing.succeeded:
        if due := replicas.last_words_due(crew, now):
            return replace(_told(crew, memory, (), now), requeue_at=due)
        memory = replace(memory, results=replicas.results(crew))
        return _told(crew, memory, [status.succeeded(job)], now)
    if deadline.exceeded(job, memory, now):
        return _told(crew, memory, [status.failed_because(job, deadline.message(job))], now)
    if fallen := replicas.falls(crew, memory, now):
        return _after_falls(crew, fallen, memory, now)
    if _nobody_left(job, memory):
        return _told(crew, memory, [status.failed_because(job, _without_success(job))], now)
    if not wanted.waits(job, memory, now):
        memory = replace(memory, restart_at=None)
    memory = ports.assign(job, memory)
    changes = [status.running(job)] if standing.running and not _still_restarting(memory) else []
    told = _told(crew, memory, changes, now)
    if replicas.raised(job.memory, memory) or memory.ports != job.memory.ports:
        return told
    create = wanted.create(crew, memory, tally, now)
    more = now + wanted.SOON if len(create) == wanted.share(job) else None
    return replace(
        told,
        requeue_at=_next(now, [told.requeue_at, more]),
        create=create,
        preconditions=(*told.preconditions, *wanted.preconditions(crew, memory, create)),
        delete=tuple(wanted.delete(crew)),
        force_delete=wanted.stuck(crew, now),
    )


def _after_falls(crew: Crew, fallen: Sequence[restart.Fall], memory: Memory, now: datetime) -> Desired:
    """On record: the failures, and what starts again. It starts in the next look."""
    job = crew.job
    decision = restart.decide(job, fallen, memory, now)
    told = _told(crew, decision.memory, _changes(job, decision), now)
    return replace(
        told, preconditions=(*told.preconditions, *replicas.preconditions(crew, fallen, decision.restarted))
    )


def _changes(job: TrainingJob, decision: restart.Decision) -> list[status.Change]:
    if not decision.fallen:
        return []
    role = decision.fallen[0].role
    count = sum(each.role == role for each in decision.fallen)
    match decision.ends:
        case "spent":
            return [status.failed_because(job, back_off.message(job))]
        case "failed" if job.roles[role].restart == "ExitCode":
            message = f'job "{job.name}" is failing because "{role}" replica(s) failed.'
            return [status.failed_because(job, message)]
        case "failed":
            return [status.failed(job, count, role)]
        case _:
            return [status.restarting(job, count, role)]


def _still_restarting(memory: Memory) -> bool:
    pending = any(each.phase == "Pending" for each in memory.replicas.values())
    return pending and status.holds(memory.conditions, "Restarting")


def _nobody_left(job: TrainingJob, memory: Memory) -> bool:
    """Every replica has ended, and that was no success: failures that were to be ignored."""
    return bool(job.places) and all(memory.replicas[place].phase in replicas.ENDED for place in job.places)


def _without_success(job: TrainingJob) -> str:
    return f"{job.kind} {job.name} has failed because all of its replicas have ended without success."


# ---- the answer


def _told(crew: Crew, memory: Memory, changes: Sequence[status.Change], now: datetime) -> Desired:
    """The status alone, after `changes`, and when to look again."""
    job = crew.job
    tally: Tally = replicas.tally(crew, memory)
    said = status.status_of(job, tally, changes, memory, now)
    times = [deadline.at(job, memory), *wanted.looks(crew, memory)]
    return Desired(status=said, preconditions=replicas.dropped(crew, memory), requeue_at=_next(now, times))


def _next(now: datetime, times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None and each > now), default=None)
