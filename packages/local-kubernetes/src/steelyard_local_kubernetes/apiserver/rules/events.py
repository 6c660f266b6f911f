"""Events of the core group, and the same events as `events.k8s.io` names their fields."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import key_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def _default(event: Json) -> None:
    defaults(event, source={}, reportingComponent="", reportingInstance="")
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)


def _check(event: Json, old: Json | None) -> list[Cause]:
    namespace, own = find_field(event, "involvedObject", "namespace") or "", event["metadata"]["namespace"]
    if event.get("eventTime"):
        differs = not namespace and own not in ("default", "kube-system")
    else:
        # An event about an object without a namespace is kept in `default`.
        differs = namespace != own and bool(namespace or own != "default")
    if differs:
        return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]
    return []


_MOST = 128  # characters of a name in an event
_MOST_OF_NOTE = 1024


def check_core(event: Json, old: Json | None) -> list[Cause]:
    """Faults of a new event of the core group."""
    return _reporter_causes(event, "reportingComponent") if event.get("eventTime") else []


def check_new(event: Json, old: Json | None) -> list[Cause]:
    """Faults of a new event of `events.k8s.io`, which has one time and no fields of old."""
    causes = _reporter_causes(event, "reportingController") if event.get("eventTime") else []
    if not event.get("eventTime"):
        causes.append(missing_value("eventTime"))
    if (kind := event.get("type") or "") not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {kind}"))
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(name):
            causes.append(invalid(name, "", "needs to be unset"))
    return causes


def _reporter_causes(event: Json, controller: str) -> list[Cause]:
    """Faults of an event with a time, in either group."""
    name = event.get("reportingComponent") or ""
    causes = ([] if name else [missing_value(controller)]) + key_causes(name, controller)
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field) or ""
        if not value:
            causes.append(missing_value(field))
        if len(value.encode()) > _MOST:
            causes.append(invalid(field, "", f"can have at most {_MOST} characters"))
    if len((event.get("message") or "").encode()) > _MOST_OF_NOTE:
        causes.append(invalid("message", "", f"can have at most {_MOST_OF_NOTE} characters"))
    return causes


def as_new(event: Json) -> Json:
    """A core event as `events.k8s.io/v1` shows it."""
    return {_NEW_NAMES.get(k, k): v for k, v in event.items()} | {"apiVersion": "events.k8s.io/v1"}


def as_old(event: Json) -> Json:
    """An event of `events.k8s.io/v1` as it is stored."""
    return {_OLD_NAMES.get(k, k): v for k, v in event.items()} | {"apiVersion": "v1"}


EVENT = Rules(default=_default, check=_check)
