"""The AppWrapper controller's decision, by phases: Suspended, Resuming, Running, Resetting, Suspending and the ends.

`sync.py` calls `decide` with the AppWrapper, then its components and its Pods as they are stored.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import is_deleting, read_finalizers, read_status
from steelyard_local_kubernetes.controllers.app_wrapper.components import (
    component,
    component_health,
    first_unknown_kind,
    is_pod_of,
)
from steelyard_local_kubernetes.controllers.app_wrapper.settings import Settings, read_settings
from steelyard_local_kubernetes.controllers.decision import Decision, seconds_until, with_condition
from steelyard_local_kubernetes.controllers.pods import is_true, make_condition

FINALIZER = "workload.codeflare.dev/finalizer"
CONTROLLER = "workload.codeflare.dev/appwrapper"
RESERVED, DEPLOYED, READY = "QuotaReserved", "ResourcesDeployed", "PodsReady"
UNHEALTHY, DELETING = "Unhealthy", "DeletingResources"
POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Context:
    """Facts on which the decision about one AppWrapper depends."""

    wrapper: Json
    components: list[Json]
    pods: list[Json]
    now: datetime
    taken: set[str]
    settings: Settings

    def remaining(self, condition: str, seconds: float) -> float:
        """Return the seconds until `seconds` after a condition last changed."""
        present = make_condition(self.wrapper, condition)
        return seconds_until(present["lastTransitionTime"], seconds, self.now) if present else 0.0

    def transition(self, phase: str, *conditions: tuple[str, bool, str, str], **fields: object) -> Decision:
        """Return the decision that writes a phase and conditions."""
        status = {**read_status(self.wrapper), "phase": phase, **fields}
        known = list(sequence(status, "conditions"))
        for kind, value, reason, message in conditions:
            condition = {"type": kind, "status": str(value), "reason": reason, "message": message}
            known = with_condition(known, condition, self.now, stamp="lastTransitionTime")
        status["conditions"] = known
        return Decision(status=status if status != read_status(self.wrapper) else None)


def labels(wrapper: Json) -> Json:
    return {CONTROLLER: wrapper["metadata"]["name"]}


def decide(wrapper: Json, children: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `wrapper`. `taken`: names that belong to other objects."""
    if wrapper["spec"].get("managedBy") not in (None, "", "workload.codeflare.dev/appwrapper-controller"):
        return Decision()
    pods = [child for child in children if child["kind"] == "Pod" and is_pod_of(wrapper, child)]
    expected = {
        (e["template"].get("kind"), e["template"].get("metadata", {}).get("name")) for e in _entries(wrapper)
    }
    components = [child for child in children if (child["kind"], child["metadata"]["name"]) in expected]
    context = Context(wrapper, components, pods, now, taken or set(), read_settings(wrapper))
    if is_deleting(wrapper):
        return _terminate(context)
    if FINALIZER not in read_finalizers(wrapper):
        finalizers = [*read_finalizers(wrapper), FINALIZER]
        version = wrapper["metadata"]["resourceVersion"]
        return Decision(
            patch=((wrapper, {"metadata": {"finalizers": finalizers, "resourceVersion": version}}),)
        )
    return _by_phase(context)


def _by_phase(context: Context) -> Decision:
    suspend = bool(context.wrapper["spec"].get("suspend"))
    decision = Decision()
    match str(read_status(context.wrapper).get("phase") or ""):
        case "":
            decision = context.transition("Suspended", *_suspension_conditions(), resettingCount=0)
        case "Suspended" if not suspend:
            decision = _resume(context, "Suspend is false")
        case "Resuming" | "Running" if suspend:
            decision = context.transition(
                "Suspending", (DELETING, True, "DeletionInitiated", "Suspend is true")
            )
        case "Resuming":
            decision = _deploy(context)
        case "Running":
            decision = _watch(context)
        case "Resetting":
            decision = context.transition("Suspending") if suspend else _reset(context)
        case "Suspending":
            step = _remove(context)
            decision = context.transition("Suspended", *_suspension_conditions()) if step is None else step
        case "Failed":
            decision = _fail(context)
        case "Succeeded":
            decision = _expire(context)
    return decision


def _entries(wrapper: Json) -> list[Json]:
    return list(sequence(wrapper["spec"], "components"))


def _suspension_conditions() -> tuple[tuple[str, bool, str, str], ...]:
    message = "Suspend is true"
    return (
        (RESERVED, False, "Suspended", message),
        (DEPLOYED, False, "Suspended", message),
        (READY, False, "Suspended", message),
        (UNHEALTHY, False, "Suspended", message),
        (DELETING, False, "DeletionComplete", "No resources are deployed"),
    )


def _resume(context: Context, message: str) -> Decision:
    return context.transition(
        "Resuming",
        (RESERVED, True, "Resuming", message),
        (DEPLOYED, True, "Resuming", message),
        (READY, False, "Resuming", message),
        (UNHEALTHY, False, "Resuming", message),
    )


def _deploy(context: Context) -> Decision:
    """Make the components that are missing; then the AppWrapper runs."""
    if kind := first_unknown_kind(context.wrapper):
        message = f"components of the kind {kind} cannot be made here"
        return context.transition("Failed", (UNHEALTHY, True, "CreateFailed", message))
    present = {(obj["kind"], obj["metadata"]["name"]) for obj in context.components}
    expected = [component(context.wrapper, entry) for entry in _entries(context.wrapper)]
    lacking = [obj for obj in expected if (obj["kind"], obj["metadata"]["name"]) not in present]
    if named := [obj for obj in lacking if obj["metadata"]["name"] in context.taken]:
        obj = named[0]
        message = f"{obj['kind']} {obj['metadata']['name']} is there already, and belongs to another"
        return context.transition("Failed", (UNHEALTHY, True, "CreateFailed", message))
    if lacking:
        return Decision(create=tuple(lacking))
    return context.transition(
        "Running", componentStatus=[_component_status(obj) for obj in context.components]
    )


def _component_status(obj: Json) -> Json:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"]}


def _watch(context: Context) -> Decision:
    """Compare the Pods with those expected; reset components that are unhealthy for too long."""
    health, settings = component_health(context.wrapper, context.components, context.pods), context.settings
    if health.succeeded:
        return context.transition(
            "Succeeded",
            (RESERVED, False, "Succeeded", "All components have succeeded"),
            (DEPLOYED, True, "Succeeded", "All components have succeeded"),
            (READY, True, "PodsSucceeded", "All Pods have succeeded"),
        )
    if codes := health.exit_codes:
        terminal = bool(codes & settings.terminal) or bool(
            settings.retryable and not codes & settings.retryable
        )
        if terminal:
            message = f"Pods ended with exit codes {', '.join(map(str, sorted(codes)))}"
            return context.transition("Failed", (UNHEALTHY, True, "FoundFailedPods", message))
    if len(context.components) < len(_entries(context.wrapper)):
        return _unhealthy(context, "MissingComponent", "A component has been deleted", 0.0)
    if health.fault:
        return _unhealthy(context, "FailedComponent", health.fault, settings.failure)
    if health.failed:
        return _unhealthy(
            context, "FoundFailedPods", f"{len(health.failed)} Pods have failed", settings.failure
        )
    counts = f"{health.ready} Pods ready; {health.expected} expected"
    healthy = (UNHEALTHY, False, "FoundNoFailedPods", "")
    if health.ready >= health.expected:
        decision = context.transition("Running", (READY, True, "SufficientPodsReady", counts), healthy)
        return decision or Decision(requeue_after=POLL_SECONDS)
    left = context.remaining(
        DEPLOYED, settings.admission if health.present < health.expected else settings.warmup
    )
    if left <= 0:
        return _unhealthy(context, "InsufficientPodsReady", counts, 0.0)
    decision = context.transition("Running", (READY, False, "InsufficientPodsReady", counts), healthy)
    return decision or Decision(requeue_after=min(left, POLL_SECONDS))


def _unhealthy(context: Context, reason: str, message: str, grace: float) -> Decision:
    """Say that the AppWrapper is unhealthy; after the grace period it is reset, or fails."""
    unhealthy = (UNHEALTHY, True, reason, message)
    if grace > 0 and not is_true(context.wrapper, UNHEALTHY):
        return context.transition("Running", unhealthy)
    left = context.remaining(UNHEALTHY, grace) if grace > 0 else 0.0
    if left > 0:
        return context.transition("Running", unhealthy) or Decision(requeue_after=min(left, POLL_SECONDS))
    count = int(read_status(context.wrapper).get("resettingCount") or 0)
    if count >= context.settings.retry_limit:
        return context.transition("Failed", unhealthy)
    return context.transition("Resetting", unhealthy, resettingCount=count + 1)


def _remove(context: Context) -> Decision | None:
    """Return the next step of the components' removal; None once they and their Pods are gone."""
    if not context.components and not context.pods:
        return None
    deleting = context.transition(
        read_status(context.wrapper)["phase"],
        (DELETING, True, "DeletionInitiated", "Resources are being deleted"),
    )
    gone = tuple(obj for obj in context.components if not is_deleting(obj))
    return Decision(status=deleting.status, delete=gone, requeue_after=1.0)


def _reset(context: Context) -> Decision:
    if (step := _remove(context)) is not None:
        return step
    if is_true(context.wrapper, DEPLOYED):
        return context.transition(
            "Resetting",
            (DEPLOYED, False, "Resetting", "Resources are deleted"),
            (DELETING, False, "DeletionComplete", "Resources are deleted"),
        )
    left = context.remaining(DEPLOYED, context.settings.retry_pause)
    return Decision(requeue_after=left) if left > 0 else _resume(context, "Reset complete; resuming")


def _fail(context: Context) -> Decision:
    left = context.remaining(UNHEALTHY, context.settings.deletion_on_failure)
    if left > 0:
        return Decision(requeue_after=left)
    if (step := _remove(context)) is not None:
        return step
    return context.transition(
        "Failed",
        (RESERVED, False, "Failed", "Resources are deleted"),
        (DEPLOYED, False, "Failed", "Resources are deleted"),
        (DELETING, False, "DeletionComplete", "Resources are deleted"),
    )


def _expire(context: Context) -> Decision:
    """Remove the components of an AppWrapper that has succeeded, once their time is over; the AppWrapper stays."""
    if not is_true(context.wrapper, DEPLOYED):
        return Decision()
    left = context.remaining(DEPLOYED, context.settings.success_ttl)
    if left > 0:
        return Decision(requeue_after=left)
    if (step := _remove(context)) is not None:
        return step
    return context.transition(
        "Succeeded",
        (DEPLOYED, False, "Succeeded", "Time to live after success has expired"),
        (DELETING, False, "DeletionComplete", "Resources are deleted"),
    )


def _terminate(context: Context) -> Decision:
    if FINALIZER not in read_finalizers(context.wrapper):
        return Decision()
    if read_status(context.wrapper).get("phase") != "Terminating":
        return context.transition(
            "Terminating", (DELETING, True, "DeletionInitiated", "The AppWrapper is deleted")
        )
    if (step := _remove(context)) is not None:
        return step
    left = [name for name in read_finalizers(context.wrapper) if name != FINALIZER]
    version = context.wrapper["metadata"]["resourceVersion"]
    return Decision(
        patch=((context.wrapper, {"metadata": {"finalizers": left, "resourceVersion": version}}),)
    )
