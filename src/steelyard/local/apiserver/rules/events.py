"""Events of the core group, and the same events as `events.k8s.io` names their fields."""

from steelyard.local.apiserver.errors import Cause, invalid
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.rules.common import defaults
from steelyard.types import Json

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
    namespace = field_of(event, "involvedObject", "namespace") or ""
    # An event about an object without a namespace is kept in `default`.
    if namespace != event["metadata"]["namespace"] and (
        namespace or event["metadata"]["namespace"] != "default"
    ):
        return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]
    return []


def as_new(event: Json) -> Json:
    """A core event as `events.k8s.io/v1` shows it."""
    return {_NEW_NAMES.get(k, k): v for k, v in event.items()} | {"apiVersion": "events.k8s.io/v1"}


def as_old(event: Json) -> Json:
    """An event of `events.k8s.io/v1` as it is stored."""
    return {_OLD_NAMES.get(k, k): v for k, v in event.items()} | {"apiVersion": "v1"}


EVENT = Rules(default=_default, check=_check)
