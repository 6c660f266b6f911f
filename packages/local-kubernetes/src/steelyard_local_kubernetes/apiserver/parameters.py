"""Query parameters and options of requests, read and checked."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.content import BadContent, decode_json
from steelyard_local_kubernetes.apiserver.errors import Cause, Refusal
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.watch import WatchOptions

YAML = "application/yaml"
META_GROUP = "meta.k8s.io"
_LONGEST_WATCH = 86_400  # seconds; a client that asks for more begins another
_DIGITS = 20  # of the largest numbers of 64 bits; Python refuses to read texts of thousands
_SENT = ("fieldManager", "fieldValidation")
_MANAGER = 128  # bytes of a manager's name
_MATCHES = ("Exact", "NotOlderThan")
_VALIDATIONS = ["", "Ignore", "Strict", "Warn"]


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def integer(request: Request, name: str, *, negative: bool = False, signed: bool = False) -> int:
    """An optional whole number of 64 bits; 0 where it is absent.

    One below 0 is refused, or taken as 0 (`negative`), or as it is (`signed`).
    """
    text = request.query.get(name, "")
    below = text.startswith("-") and is_whole(text[1:])
    if not text or (negative and below):
        return 0
    if not (is_whole(text) or (signed and below)):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    # The length first: `int` raises at thousands of digits, and that would be an error of the server.
    if len(text) > _DIGITS or not -(1 << 63) <= int(text) < 1 << 63:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def write_options(request: Request, kind: str, dry_run: Sequence[str] | None = None) -> Options:
    """Options of a write by its query; `dry_run` is that of a body."""
    dry = [value for value in request.all_values("dryRun") if value] if dry_run is None else list(dry_run)
    validation = request.query.get("fieldValidation", "")
    if causes := dry_run_causes(dry):
        raise errors.is_invalid(META_GROUP, kind, "", causes)
    if validation not in _VALIDATIONS:
        raise errors.is_invalid(
            META_GROUP, kind, "", [errors.not_supported("fieldValidation", validation, _VALIDATIONS)]
        )
    manager = request.query.get("fieldManager", "")
    if manager and (causes := manager_causes(manager)):
        raise errors.is_invalid(META_GROUP, kind, "", causes)
    chosen = cast("Literal['Strict', 'Warn', 'Ignore']", validation or "Warn")
    named = manager or _product(request)
    return Options(
        dry_run=bool(dry),
        validation=chosen,
        warnings=request.warnings,
        user=request.user,
        manager=named,
        named=bool(manager),
        kind=kind,
        sent=_options_object(request) | ({"dryRun": ["All"]} if dry else {}),
        answers=request.answers,
    )


def _options_object(request: Request) -> Json:
    """The options as their object has them."""
    return {name: request.query[name] for name in _SENT if request.query.get(name)}


def dry_run_causes(values: Sequence[str]) -> list[Cause]:
    if set(values) <= {"All"}:
        return []
    text = f'Unsupported value: {orjson.dumps(list(values)).decode()}: supported values: "All"'
    return [Cause("dryRun", text, "FieldValueNotSupported")]


def patch_options(request: Request, *, apply: bool = False) -> Options:
    causes = []
    if apply and not request.query.get("fieldManager"):
        causes.append(errors.missing_value("fieldManager", "is required for apply patch"))
    elif not apply and "force" in request.query:
        causes.append(errors.forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise errors.is_invalid(META_GROUP, "PatchOptions", "", causes)
    options = write_options(request, "PatchOptions")
    # Admission and authorization treat the write as an update.
    options.kind = "UpdateOptions"
    return options


def manager_causes(manager: str) -> list[Cause]:
    if len(manager.encode()) > _MANAGER:
        text = f"Too long: may not be more than {_MANAGER} bytes"
        return [Cause("fieldManager", text, "FieldValueTooLong")]
    at = 0
    for character in manager:
        if not character.isprintable():
            text = f"invalid character U+{ord(character):04X} (at position {at})"
            return [errors.invalid("fieldManager", manager, text)]
        at += len(character.encode())
    return []


def _product(request: Request) -> str:
    """The client's name in its User-Agent: the manager of a client that names none."""
    product = request.headers.get("user-agent", "").partition("/")[0]
    return "".join(filter(str.isprintable, product))[:_MANAGER]


def watch_options(request: Request, current: int) -> WatchOptions:
    """Return the options of a watch; refuse a version that does not exist yet."""
    version = request.query.get("resourceVersion", "")
    if why := _no_version(version):
        raise Refusal(500, "", why)
    # A real server waits for such a version in silence; a client that is ahead (of a restored database) gets an error
    # here.
    check_version(version, current)
    initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
    _check_watch(request, initial is not None)
    return WatchOptions(
        version=version,
        seconds=float(min(integer(request, "timeoutSeconds") or 3600, _LONGEST_WATCH)),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial=initial,
    )


def check_version(version: str, current: int) -> None:
    if why := _no_version(version):
        raise errors.bad_request(f"invalid resource version: {why}")
    if int(version or 0) > current:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        # By this cause clients know that the server is behind them (its database was restored), and list again.
        details: Json = {"causes": [cause], "retryAfterSeconds": 1}
        text = f"Timeout: Too large resource version: {version}, current: {current}"
        raise Refusal(504, "Timeout", text, details)


def _no_version(version: str) -> str:
    """Say why a text is not a version; nothing where it is one, or empty."""
    if not version or (is_whole(version) and len(version) <= _DIGITS):
        return ""
    why = "value out of range" if is_whole(version) else "invalid syntax"
    return f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": {why}'


def check_list_options(request: Request) -> None:
    """Refuse options of a list that do not go together."""
    query, path = request.query, "resourceVersionMatch"
    version, match = query.get("resourceVersion", ""), query.get(path, "")
    causes: list[Cause] = []
    if match:
        if not version:
            causes.append(
                errors.forbidden_field(path, f"{path} is forbidden unless resourceVersion is provided")
            )
        if query.get("continue"):
            causes.append(errors.forbidden_field(path, f"{path} is forbidden when continue is provided"))
        if match not in _MATCHES:
            causes.append(errors.not_supported(path, match, [*_MATCHES, ""]))
        if match == "Exact" and version == "0":
            causes.append(
                errors.forbidden_field(path, f'{path} "exact" is forbidden for resourceVersion "0"')
            )
    if "sendInitialEvents" in query:
        causes.append(errors.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse(causes)


def _check_watch(request: Request, initial: bool) -> None:
    """Refuse options of a watch that do not go together."""
    query, path = request.query, "resourceVersionMatch"
    match = query.get(path, "")
    causes: list[Cause] = []
    if initial and match != "NotOlderThan":
        text = f"sendInitialEvents requires setting {path} to NotOlderThan"
        causes.append(errors.forbidden_field(path, text))
    if query.get("continue"):
        causes.append(errors.forbidden_field(path, f"{path} is forbidden when continue is provided"))
    if match:
        if not initial:
            text = f"{path} is forbidden for watch unless sendInitialEvents is provided"
            causes.append(errors.forbidden_field(path, text))
        if match != "NotOlderThan":
            causes.append(errors.not_supported(path, match, ["NotOlderThan"]))
    _refuse(causes)


def _refuse(causes: list[Cause]) -> None:
    if causes:
        raise errors.is_invalid(META_GROUP, "ListOptions", "", causes)


def json_value(body: bytes) -> Any:
    try:
        return decode_json(body)
    except BadContent as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
