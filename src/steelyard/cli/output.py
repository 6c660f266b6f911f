"""Output of entities: a table for people, JSON and YAML for programs, names for shells."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from steelyard_common.errors import UsageError, one_line
from steelyard_common.types import Json, mapping, sequence
from steelyard_schema.retention import files_until, forget_time

_IF_ANY = frozenset({"DATASET", "MODEL", "SCORE"})
FORMS = ("table", "json", "yaml", "name")
SHOWN_TEXT = 120  # characters of a text without a blank; a URL or a digest has fewer


def check_form(form: str) -> str:
    """Raises UsageError for a form that there is not."""
    if form not in FORMS:
        raise UsageError(f"--output {form}: should be {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    return form


def render(entities: Sequence[Json], form: str, plural: str, *, single: bool, now: datetime) -> str:
    """The entities in a form; `single` prints one object instead of a list of one."""
    match form:
        case "name":
            return "\n".join(f"{plural}/{entity['id']}" for entity in entities)
        case "json":
            return json.dumps(entities[0] if single else list(entities), indent=2)
        case "yaml":
            import yaml

            return str(yaml.safe_dump(entities[0] if single else list(entities), sort_keys=False)).rstrip()
    return table(entities, now)


def table(entities: Sequence[Json], now: datetime, scores: Mapping[str, str] | None = None) -> str:
    """ID, NAME, STATUS, WHY and AGE, and what the entities are about; `scores` are the main scores by their ids.

    A column that no entity has a value for is left out, but NAME and WHY.
    """
    parts: dict[str, Callable[[Json], str]] = {
        "ID": lambda entity: str(entity.get("id", "")),
        "NAME": display_name,
        "DATASET": dataset_name,
        "MODEL": model_name,
        "SCORE": lambda entity: (scores or {}).get(str(entity.get("id")), ""),
        "STATUS": lambda entity: str(entity.get("status", "")),
        "AGE": lambda entity: age(entity, now),
        "WHY": status_text,
    }
    shown = {name: [part(entity) for entity in entities] for name, part in parts.items()}
    kept = {name: cells for name, cells in shown.items() if any(cells) or name not in _IF_ANY}
    return columns([list(kept), *zip(*kept.values(), strict=True)]) if entities else "nothing found"


def dataset_name(entity: Json) -> str:
    """Return the name of the dataset that an entity was asked with, or the beginning of its id."""
    return _reference_name(
        entity, "dataset", entity.get("dataset") or mapping(entity, "scope").get("dataset")
    )


def model_name(entity: Json) -> str:
    """Return the name of the model that an entity is about, or of the service where it has no model of its own."""
    session = mapping(entity, "inferenceSession") or entity
    service = session.get("inferenceService")
    if isinstance(service, dict):
        return str(mapping(service, "model").get("name") or service.get("name") or "")
    model = entity.get("model")
    if isinstance(model, dict):
        return str(model.get("name") or "")
    scope = mapping(entity, "scope")
    named = _reference_name(entity, "model", model or scope.get("model"))
    return named or _reference_name(entity, "inferenceService", service or scope.get("inferenceService"))


def _reference_name(entity: Json, field: str, id: object) -> str:
    """Return the name that an annotation gives what a field refers to, or the beginning of its id."""
    notes = {note.get("key"): note.get("value") for note in sequence(entity, "annotations")}
    return str(notes.get(f"steelyard/name-{field}") or (id[:8] if isinstance(id, str) else ""))


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as lines with columns of equal width."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # A line ends with its text: padded, one long message in the last column would wrap every line of a terminal.
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def display_name(entity: Json) -> str:
    """Return the name of an entity. Without a name: its title, as use cases, hazards and challenges have, or what it
    is made of: the service and the dataset of an evaluation, the rubric of a report.
    """
    documents = [mapping(document, "documentation") for document in (mapping(entity, "metadata"), entity)]
    for document in (*documents, mapping(mapping(entity, "content"), "page")):
        title = document.get("title")
        if not entity.get("name") and isinstance(title, str) and title:
            return title
    return str(entity.get("name") or _makings(entity))


def _makings(entity: Json) -> str:
    match entity.get("kind"):
        case "Report":
            return str(entity.get("rubric") or "")
        case "Evaluation":
            service = mapping(mapping(entity, "inferenceSession"), "inferenceService").get("name")
            return " on ".join(str(part) for part in (service, dataset_name(entity)) if part)
    return ""


def log_line(time: str, message: str) -> str:
    """Return a line of a log: its time, then its text.

    A step writes its lines as JSON objects with the time, a level, a message and further fields. Of such a line the
    message is printed, with its fields behind it; any other line is printed as it is.
    """
    try:
        content = json.loads(message)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not {"time", "level", "message"} <= content.keys():
        return f"{time} {message}"
    level = f"{content['level']}: " if content["level"] != "info" else ""
    step = f"{content['step']}: " if content.get("step") else ""
    fields = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in content.items()
        if name not in {"time", "level", "step", "message"}
    ]
    return " ".join([f"{time} {step}{level}{content['message']}", *fields])


def status_text(entity: Json) -> str:
    """Reason and message of the status, in a line."""
    reason, message = entity.get("reason") or "", entity.get("message") or ""
    return f"{reason}: {message}" if reason and message else reason or message


def age(entity: Json, now: datetime) -> str:
    """Time since the creation in its largest unit, as kubectl writes it."""
    created = entity.get("creationTime")
    if not created:
        return ""
    seconds = int((now - datetime.fromisoformat(created)).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def describe(
    entity: Json, plural: str, now: datetime, progress: str | None = None, scores: Sequence[str] = ()
) -> str:
    """Return one entity: first what a person asks for, then every field as YAML, with long texts shortened."""
    import yaml

    shown = {
        "Name": display_name(entity),
        "Id": f"{plural}/{entity.get('id')}",
        "Account": entity.get("account"),
        "Status": entity.get("status"),
        "Why": progress or status_text(entity) or None,
        # The message of a method's own error is one line of its traceback.
        "More": f"steelyard logs {plural} {entity.get('id')}"
        if entity.get("reason") == "MethodFailed"
        else None,
        "Goes": _end_text(entity),
        "Age": age(entity, now),
        "Labels": ", ".join(f"{key}={value}" for key, value in mapping(entity, "labels").items()) or None,
    }
    head = [f"{name + ':':<10}{one_line(str(value))}" for name, value in shown.items() if value]
    head += [f"{'' if number else 'Scores:':<10}{one_line(score)}" for number, score in enumerate(scores)]
    in_head = {"name", "id", "account", "status", "reason", "message", "labels", "schemaVersion"}
    rest = {key: _in_part(value) for key, value in entity.items() if key not in in_head}
    return "\n".join([*head, "", str(yaml.safe_dump(rest, sort_keys=False)).rstrip()])


def _end_text(entity: Json) -> str | None:
    """Say when a deleted entity is forgotten, and when its files go; None for one that stays."""
    since = entity.get("lastTransitionTime") or entity.get("creationTime")
    if entity.get("status") != "Deleted" or not since:
        return None
    forgotten = forget_time(datetime.fromisoformat(since))
    days = (time.date().isoformat() for time in (forgotten, files_until(forgotten)))
    return "forgotten {}, its files go {}; until then: steelyard backup restore {}".format(
        *days, entity.get("id")
    )


def _in_part(value: Any) -> Any:
    """The value with texts that no person reads, such as an Arrow schema in base64, cut short."""
    match value:
        case dict():
            return {key: _in_part(item) for key, item in value.items()}
        case list():
            return [_in_part(item) for item in value]
        case str() if len(value) > SHOWN_TEXT and " " not in value:
            return f"{value[: SHOWN_TEXT // 2]}... ({len(value)} characters)"
    return value


def now() -> datetime:
    return datetime.now(UTC)
