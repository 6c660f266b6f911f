"""Invariants of the exploration, as checks of a change: each returns what is wrong, or an empty text."""

from steelyard.operator.children import live
from steelyard.operator.edge import Key
from steelyard.operator.names import COMPONENT
from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.lagging_caches import peek
from steelyard.operator.simulation.simulator import Simulator, State
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import find_controller, read_status, true_condition
from steelyard_kube.resource import EVALUATIONS, JOBS
from steelyard_kube.store import Key as StoreKey


def foreign_touched(before: State, changed: set[StoreKey]) -> str:
    for key in changed:
        stored = before.objects.objects.get(key)
        if stored and env.is_foreign(peek(stored.raw)):
            return f"the operator touched {key.resource.kind} {key.name}, which is somebody else's"
    return ""


def steps_taken_back(before: State, simulator: Simulator, key: Key) -> str:
    """Milestones, attempts and ends stay."""
    stored = before.objects.objects.get(StoreKey(key.resource, key.namespace, key.name))
    new, old = simulator.resource(), peek(stored.raw) if stored else None
    if not new or not old or old["metadata"]["uid"] != new["metadata"]["uid"]:
        return ""
    was, is_now = read_status(old), read_status(new)
    if true_condition(old, "Finished") and was != is_now:
        return f"the end was changed: {was} became {is_now}"
    milestones = sequence(was, "milestones")
    if sequence(is_now, "milestones")[: len(milestones)] != milestones:
        return f"milestones were taken back: {milestones} became {is_now.get('milestones')}"
    for step, attempts in mapping(was, "attempts").items():
        later = mapping(is_now, "attempts").get(step) or {"number": 0, "counted": 0}
        if (later["number"], later["counted"]) < (attempts["number"], attempts["counted"]):
            return f"attempts of {step} were taken back: {attempts} became {later}"
    return ""


def find_late_object(before: State, simulator: Simulator, changed: set[StoreKey]) -> str:
    """Check that nothing starts for a finished resource, and no session or client after the client's success."""
    owners = {
        obj["metadata"]["uid"]: obj for obj in map(peek, (s.raw for s in before.objects.objects.values()))
    }
    after = simulator.store.all_objects
    for key in changed:
        if key not in after or key in before.objects.objects:
            continue
        created = peek(after[key].raw)
        owner = owners.get((find_controller(created) or {}).get("uid", ""))
        if owner is None:
            return f"{key.name} was made for nobody"
        if true_condition(owner, "Finished"):
            return f"{key.name} was made for what has finished"
        asks = created["metadata"].get("labels", {}).get(COMPONENT) in {"client", "session"}
        milestones = sequence(owner, "status", "milestones")
        if asks and owner["kind"] == EVALUATIONS.kind and "ClientSucceeded" in milestones:
            return f"{key.name} was made although the client had succeeded"
    return ""


def two_jobs(simulator: Simulator) -> str:
    seen: dict[tuple[str, str], str] = {}
    for job in simulator.objects(JOBS):
        owner = find_controller(job)
        if owner and live(job):
            key = (owner["uid"], job["metadata"]["labels"][COMPONENT])
            if key in seen:
                return f"{seen[key]} and {job['metadata']['name']} live at once"
            seen[key] = job["metadata"]["name"]
    return ""


def still_runs(obj: Json) -> bool:
    return obj["kind"] == "InferenceSession" or (obj["kind"] == "Job" and bool(live(obj)))


def strays(simulator: Simulator) -> list[str]:
    living = {obj["metadata"]["uid"] for obj in simulator.objects()}
    return [
        obj["metadata"]["name"]
        for obj in simulator.objects()
        if (owner := find_controller(obj)) and owner["uid"] not in living
    ]
