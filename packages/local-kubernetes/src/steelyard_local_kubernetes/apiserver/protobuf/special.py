"""Types that are one thing in protobuf and another in JSON: times, quantities, JSON within protobuf."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import BadContent, decode_json
from steelyard_local_kubernetes.apiserver.protobuf.descriptors import META

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"


def _time(value: Json) -> str | None:
    """Whole seconds: Kubernetes drops the rest. Without a field it is the zero time, which is null."""
    return f"{_moment(value):%Y-%m-%dT%H:%M:%SZ}" if value else None


def _micro_time(value: Json) -> str | None:
    if not value:
        return None
    microseconds = timedelta(microseconds=value.get("nanos", 0) // 1000)
    return f"{_moment(value) + microseconds:%Y-%m-%dT%H:%M:%S.%fZ}"


def _moment(value: Json) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=value.get("seconds", 0))
    except OverflowError as error:
        raise BadContent("year is outside of the range 1 to 9999") from error


def _duration(value: Json) -> str:
    """Go's form of a duration in nanoseconds, in its smallest number of units: `1h2m3.5s`."""
    nanoseconds = abs(value.get("duration", 0))
    sign = "-" if value.get("duration", 0) < 0 else ""
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if 0 < nanoseconds < min(size * 1_000, 1_000_000_000):
            return f"{sign}{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{text}{_decimal(rest, 1_000_000_000)}s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0").rstrip(".") if rest else str(whole)


def _int_or_string(value: Json) -> int | str:
    if value.get("type", 0) == 0:
        return int(value.get("intVal", 0))
    return str(value.get("strVal", ""))


def _json(value: Json) -> Any:
    raw = next(iter(value.values()), b"")  # its only field, whose name is not always the same
    return decode_json(raw) if raw else None


def _schema_or_bool(value: Json) -> Any:
    return value["schema"] if "schema" in value else bool(value.get("allows"))


def _schema_or_list(name: str) -> Callable[[Json], Any]:
    return lambda value: value.get(name) or value.get("schema")


def _items(value: Json) -> list[str]:
    return list(value.get("items", []))


SPECIAL: dict[str, Callable[[Json], Any]] = {
    f"{META}.Time": _time,
    f"{META}.MicroTime": _micro_time,
    f"{META}.Duration": _duration,
    f"{META}.FieldsV1": _json,
    f"{META}.Verbs": _items,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda value: value.get("string", ""),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _json,
    "k8s.io.api.authentication.v1.ExtraValue": _items,
    "k8s.io.api.authorization.v1.ExtraValue": _items,
    "k8s.io.api.certificates.v1.ExtraValue": _items,
    f"{_EXTENSIONS}.JSON": _json,
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or_list("jSONSchemas"),
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or_list("property"),
}
