"""What the workflows share: a spec that does not parse, a resource that has finished, a workflow of one step."""

from collections.abc import Collection

from pydantic import ValidationError

from steelyard.operator.attempts import Progress, Situation, advance
from steelyard.operator.children import live
from steelyard.operator.conditions import Memory, Phase, failed, finished_since, memory_of, status_of
from steelyard.operator.desired import Desired, Premise
from steelyard.operator.jobs import Step, complete_spec
from steelyard.operator.times import later
from steelyard.schema.resources import RESOURCES
from steelyard.types import Json


def before_all(at: Situation, bad_spec: str) -> Desired | None:
    """What every workflow does first: nothing after the end but the TTL, and a clear word about a bad spec."""
    if finished_since(at.resource):
        return after_end(at)
    seen = (at.resource.get("status") or {}).get("observedGeneration")
    if seen == at.resource["metadata"].get("generation", 1):
        return None  # a spec that has been looked at once does not change
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
    """The status stays; what still runs goes, and the resource itself when its time is over.

    Nothing goes before the end is written: a process that died between would take the end for a disruption.
    """
    since, ttl = finished_since(at.resource), at.resource["spec"].get("ttlSecondsAfterFinished")
    status, running = dict(at.resource["status"]), still_running(at)
    if since is None or ttl is None:
        return Desired(status, delete=running)
    over = later(since, ttl)
    return Desired(status, delete=running, delete_resource=at.now >= over, next_look=over)


def still_running(at: Situation) -> tuple[Json, ...]:
    """Sessions and what they consist of, and Jobs that have not ended; ended ones stay for inspection."""
    if at.resource["kind"] == "InferenceSession":
        own = at.children.objects
        return tuple(each for each in own if not each["metadata"].get("deletionTimestamp"))
    jobs = (each for job in at.children.of_kind("Job") for each in live(job))
    return (*sessions(at), *jobs)


def sessions(at: Situation) -> tuple[Json, ...]:
    found = at.children.of_kind("InferenceSession")
    return tuple(each for each in found if not each["metadata"].get("deletionTimestamp"))


def ended(at: Situation, phase: Phase, memory: Memory, premises: tuple[Premise, ...] = ()) -> Desired:
    return Desired(status_of(at.resource, phase, memory, at.now), premises=premises)


def following(at: Situation, phase: Phase, progress: Progress, delete: tuple[Json, ...] = ()) -> Desired:
    """The status in `phase`, and what the step's progress asks for."""
    status = status_of(at.resource, phase, progress.memory, at.now)
    delete = (*delete, *progress.delete)
    return Desired(status, progress.create, delete, progress.premises, progress.next_look)


def reason_of(progress: Progress, default: str, known: Collection[str]) -> tuple[str, str]:
    """The condition's reason and message for a failed step: the step's code where it is one of the kind's."""
    outcome = progress.outcome
    if outcome.code in known or not outcome.code:
        return outcome.code or default, outcome.message
    return default, f"{outcome.code}: {outcome.message}"


def single_step(
    at: Situation, step: Step, *, running: str, done: Phase, default: str, known: Collection[str]
) -> Desired:
    """A workflow that is one step: Model, Report, Audit."""
    progress = advance(step, memory_of(at.resource), at)
    match progress.state:
        case "succeeded":
            return following(at, done, progress)
        case "failed":
            return following(at, failed(*reason_of(progress, default, known)), progress)
        case _:
            return following(at, Phase("progressing", running, progress.outcome.message), progress)
