"""What the workflows share: a spec that does not parse, a resource that has finished, a workflow of one step."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from steelyard.operator.attempts import Progress, Situation, advance
from steelyard.operator.conditions import Memory, Phase, failed, finished_since, memory_of, status_of
from steelyard.operator.desired import Desired
from steelyard.operator.jobs import Step, complete_spec
from steelyard.schema.resources import RESOURCES

Json = dict[str, Any]


def before_all(at: Situation, bad_spec: str) -> Desired | None:
    """What every workflow does first: nothing after the end but the TTL, and a clear word about a bad spec."""
    if finished_since(at.resource):
        return after_end(at)
    if fault := spec_fault(at):
        return ended(at, failed(bad_spec, fault), memory_of(at.resource))
    return None


def spec_fault(at: Situation) -> str:
    """What is wrong with the spec, with the field's name; empty when nothing is."""
    try:
        RESOURCES[at.resource["kind"]].spec.parse(at.resource["spec"])
        complete_spec(at.resource["spec"], at.settings.storage)
    except ValidationError as error:
        faults = (f"spec.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return "; ".join(faults)
    except ValueError as error:
        return f"spec.storage: {error}"
    return ""


def after_end(at: Situation) -> Desired:
    """The status stays; the resource itself goes when its time is over."""
    since, ttl = finished_since(at.resource), at.resource["spec"].get("ttlSecondsAfterFinished")
    status = dict(at.resource["status"])
    if since is None or ttl is None:
        return Desired(status)
    over = since + timedelta(seconds=ttl)
    return Desired(status, delete_resource=at.now >= over, next_look=over)


def ended(at: Situation, phase: Phase, memory: Memory, **more: Any) -> Desired:
    return Desired(status_of(at.resource, phase, memory, at.now), **more)


def following(at: Situation, phase: Phase, progress: Progress, **more: Any) -> Desired:
    """The status in `phase`, and what the step's progress asks for."""
    status = status_of(at.resource, phase, progress.memory, at.now)
    delete = (*more.pop("delete", ()), *progress.delete)
    return Desired(status, progress.create, delete, progress.absent, progress.next_look, **more)


def reason_of(progress: Progress, default: str, known: Collection[str]) -> tuple[str, str]:
    """The condition's reason and message for a failed step: the step's code where it is one of the kind's."""
    outcome = progress.outcome
    if outcome.code in known or not outcome.code:
        return outcome.code or default, outcome.message
    return default, f"{outcome.code}: {outcome.message}"


def single_step(
    at: Situation, step: Step, *, running: str, done: Phase, default: str, known: Collection[str]
) -> Desired:
    """A workflow that is one step: Model, Report."""
    progress = advance(step, memory_of(at.resource), at)
    match progress.state:
        case "succeeded":
            return following(at, done, progress)
        case "failed":
            return following(at, failed(*reason_of(progress, default, known)), progress)
        case _:
            return following(at, Phase("progressing", running, progress.outcome.message), progress)
