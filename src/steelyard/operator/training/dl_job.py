"""Reconciliation of a training job of any kind: decides what should exist for it now. Pure: the edge carries it out.

A new observation (a failure, a suspension, a replica too many) is first written into the status, and nothing else is
done in that reconciliation; the next one acts on the status. So an operator that dies between any two calls neither
loses a count nor counts twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from steelyard.operator.children import Children
from steelyard.operator.desired import DesiredState, Event, Patch
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import (
    conditions,
    desired_objects,
    output_folder,
    outputs,
    parse,
    spec_types,
    validate,
)
from steelyard.operator.training.frameworks import ALL, definition
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.model import Invalid, JobStatus, TrainingJob
from steelyard.operator.training.observed import ownership, replicas
from steelyard.operator.training.observed.replicas import ObservedJob
from steelyard.operator.training.policies import (
    back_off,
    clean_up,
    deadline,
    gang,
    ports,
    restart,
    suspend,
)
from steelyard_common.types import Json
from steelyard_kube.objects import controller_uid, is_deleting, kind_and_name, read_conditions, read_status

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""Value of `managedBy` for a job that runs on another cluster."""
_FIELDS = {"PodGroup": "spec", "HorizontalPodAutoscaler": "spec", "ConfigMap": "data", "Role": "rules"}


def reconcile(resource: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for a job; `children` include those that it may adopt or has to release."""
    spec = resource.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    # Kueue's contract: the job runs on another cluster, and its controller there writes this status.
    if isinstance(policy, dict) and policy.get("managedBy") == MULTIKUEUE:
        return DesiredState(status=dict(read_status(resource)))
    try:
        job = read(resource, settings)
    except definition.NoSuchFramework as missing:  # the job may arrive before a Framework applied with it
        event = Event("Warning", "FrameworkMissing", str(missing))
        return DesiredState(status=dict(read_status(resource)), events=(event,))
    except Invalid as invalid:
        return _invalid(resource, children, invalid, now)
    observed = ObservedJob(job, children)
    known = job.status.conditions
    if conditions.finished(known):
        return _finish(observed, now, settings)
    # Also while a suspension is only on record: it must be ended in the status before Pods are created again.
    if suspend.is_requested(job) or suspend.is_recorded(job.status):
        return _suspend(observed, now)
    # The start is on record before the first Pod: a deadline counts from it, also after a crash.
    if not conditions.holds(known, "Created"):
        return _create(observed, now)
    corrections = patch_existing(desired_objects.common_objects(job), children)
    adoptions = ownership.ownership_patches(resource, children)
    return replace(_running(observed, now), patch=(*adoptions, *corrections))


def read(resource: Json, settings: OperatorSettings) -> TrainingJob:
    """Read a job. Raises Invalid for a job that cannot run as it is written; a finished one is not checked again."""
    resource = spec_types.check(resource)
    job = parse.parse_job(resource, find_framework(resource, settings), settings)
    job = deadline.extend_by_sleep(job, settings.sleeps)
    # A finished job is not checked again: newer rules must not turn a success into a failure, or keep its Pods.
    if not conditions.finished(job.status.conditions):
        validate.check(job)
        output_folder.check(job, settings)
        ports.assign(job, job.status)
        validate.check_size(job)  # of one that runs, too: it may have been scaled
    # A job that has begun goes on as it began: an earlier version took what this one refuses.
    if not job.status.conditions:
        validate.check_templates(job)
    return job


def find_framework(resource: Json, settings: OperatorSettings) -> Framework:
    """Return the built-in framework of a kind, or the one that a DLJob defines."""
    known = ALL.get(resource["kind"])
    return definition.find_framework(resource, settings.frameworks) if known is None else known


def _invalid(resource: Json, children: Children, invalid: Invalid, now: datetime) -> DesiredState:
    """Fail a job that cannot be read any more, and delete its running Pods and Services."""
    failed_before = any(
        condition["type"] == "Failed" and condition["reason"].endswith("FailedValidation")
        for condition in read_conditions(resource)
    )
    status = conditions.invalid(resource, str(invalid), now)
    if status == resource.get("status") and not failed_before:  # it had ended for another reason before
        return DesiredState(status=status)
    uid = resource["metadata"]["uid"]
    candidates = (*children.pods, *children.list_kind("Service"))
    delete = (obj for obj in candidates if controller_uid(obj) == uid and not is_deleting(obj))
    return DesiredState(status=status, delete=tuple(delete))


# ---- before and after


def _create(observed: ObservedJob, now: datetime) -> DesiredState:
    """Record the job's framework, ports and start first: its Pods are made from the record."""
    job = observed.job
    status = replicas.update_status(observed)
    status = replace(status, started=now, framework=job.framework.definition)
    status = ports.assign(job, status)
    event = gang.policy_warning(job)
    desired = _with_status(observed, status, [conditions.creation(job)], now)
    return replace(desired, events=(event,) if event else ())


def _suspend(observed: ObservedJob, now: datetime) -> DesiredState:
    job, status = observed.job, replicas.update_status(observed)
    if not suspend.is_requested(job):
        status, changes = suspend.resume(job, status, now)
        return _with_status(observed, status, changes, now)
    if suspend.is_recorded(status):
        return replace(
            _with_status(observed, status, (), now),
            delete=clean_up.clean_up_suspended(job, observed.children),
            force_delete=desired_objects.to_force_delete(observed, now),
        )
    status, changes = suspend.suspend(job, replace(status, framework=job.framework.definition))
    return _with_status(observed, status, [conditions.creation(job), *changes], now)


def _finish(observed: ObservedJob, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Clean up, and store the output of a job that has succeeded; its deletion after the TTL waits for that."""
    job = observed.job
    status: Json = dict(job.resource["status"])
    succeeded = conditions.holds(job.status.conditions, "Succeeded")
    output = outputs.reconcile_output(job, observed.children, now, settings) if succeeded else None
    delete, delete_resource, requeue_at = clean_up.clean_up_finished(job, observed.children, now)
    pods_end = any(is_deleting(pod) for pod in observed.children.pods)
    times = [requeue_at, *(desired_objects.requeue_times(observed, JobStatus()) if pods_end else ())]
    if output is not None:
        status["outputs"] = output.status
        times.append(output.requeue_at)
    return DesiredState(
        status=status,
        create=output.create if output else (),
        delete=delete,
        # With the job its Pods and volumes go: an output that is not stored yet would be lost.
        delete_resource=delete_resource and not (output and output.pending),
        force_delete=desired_objects.to_force_delete(observed, now) if pods_end else (),
        requeue_at=_next(now, times),
    )


# ---- running


def _running(observed: ObservedJob, now: datetime) -> DesiredState:
    job, status = observed.job, replicas.update_status(observed)
    tally = replicas.tally(observed, status)
    result = job.framework.success_rule(job, tally)
    if result.succeeded:
        # The leading replica may end a moment after the others, and its termination message holds the job's results.
        if due := replicas.results_due(observed, now):
            return replace(_with_status(observed, status, (), now), requeue_at=due)
        status = replace(status, results=replicas.results(observed))
        return _with_status(observed, status, [conditions.success(job)], now)
    if deadline.is_exceeded(job, status, now):
        return _with_status(observed, status, [conditions.failure_because(job, deadline.message(job))], now)
    if failures := replicas.failures(observed, status, now):
        # First the failures are recorded, then, in the next reconciliation, their Pods go: an operator that is killed
        # in between counts nothing twice and forgets nothing.
        decision = restart.decide(job, failures, status, now)
        response = _with_status(observed, decision.status, _changes(job, decision), now)
        recorded = replicas.failure_preconditions(observed, failures, decision.restarted)
        return replace(response, preconditions=(*response.preconditions, *recorded))
    if job.replica_ids and all(status.replicas[id].phase in replicas.ENDED for id in job.replica_ids):
        # Rules ignored the failures of some replicas, and the others' success was not enough.
        message = f"{job.kind} {job.name} has failed because all of its replicas have ended without success."
        return _with_status(observed, status, [conditions.failure_because(job, message)], now)
    if not desired_objects.waits_for_restart(job, status, now):
        status = replace(status, restart_at=None)
    status = ports.assign(job, status)
    restarting = conditions.holds(status.conditions, "Restarting") and any(
        replica.phase == "Pending" for replica in status.replicas.values()
    )
    changes = [conditions.running(job)] if result.running and not restarting else []
    desired = _with_status(observed, status, changes, now)
    if replicas.raises_attempts(job.status, status) or status.ports != job.status.ports:
        return desired
    create = desired_objects.to_create(observed, status, tally, now)
    has_more = len(create) == desired_objects.batch_size(job)
    next_batch = now + desired_objects.NEXT_BATCH if has_more else None
    preconditions = desired_objects.creation_preconditions(status, create)
    return replace(
        desired,
        requeue_at=_next(now, [desired.requeue_at, next_batch]),
        create=create,
        preconditions=(*desired.preconditions, *preconditions),
        delete=tuple(desired_objects.to_delete(observed)),
        force_delete=desired_objects.to_force_delete(observed, now),
    )


def _changes(job: TrainingJob, decision: restart.RestartDecision) -> list[conditions.ConditionChange]:
    if not decision.causes:
        return []
    role = decision.causes[0].role
    count = sum(cause.role == role for cause in decision.causes)
    match decision.ends:
        case "spent":
            return [conditions.failure_because(job, back_off.message(job))]
        case "failed" if job.roles[role].restart == "ExitCode":
            message = f'job "{job.name}" is failing because "{role}" replica(s) failed.'
            return [conditions.failure_because(job, message)]
        case "failed":
            return [conditions.failure(job, count, role)]
        case _:
            return [conditions.restarting(job, count, role)]


# ---- the result


def _with_status(
    observed: ObservedJob, status: JobStatus, changes: Sequence[conditions.ConditionChange], now: datetime
) -> DesiredState:
    """Write the status after `changes`, and nothing else."""
    job = observed.job
    tally = replicas.tally(observed, status)
    times = [deadline.at(job, status), *desired_objects.requeue_times(observed, status)]
    return DesiredState(
        status=conditions.make_status(job, tally, changes, status, now),
        preconditions=replicas.removal_preconditions(observed, status),
        requeue_at=_next(now, times),
    )


def _next(now: datetime, times: Iterable[datetime | None]) -> datetime | None:
    return min((time for time in times if time is not None and time > now), default=None)


def patch_existing(desired: Iterable[Json], children: Children) -> Iterable[Patch]:
    """Patch existing objects other than Pods that differ from the desired ones; fields that others have added stay.

    A PodGroup and an autoscaler grow and shrink with their job.
    """
    for obj in desired:
        existing, field = children.find(*kind_and_name(obj)), _FIELDS.get(obj["kind"])
        if existing is None or field is None or is_deleting(existing):
            continue
        if not _contains(existing.get(field), obj[field]):
            yield Patch(existing, {field: obj[field]})


def _contains(existing: Any, desired: Any) -> bool:
    """Return whether a value has all that is desired, and maybe more."""
    if isinstance(desired, dict) and isinstance(existing, dict):
        return all(_contains(existing.get(name), value) for name, value in desired.items())
    return bool(existing == desired)
