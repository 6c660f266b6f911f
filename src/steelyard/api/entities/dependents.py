"""Finds the entities that use another one, to name them when that is deleted. They do not hinder the deletion."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from steelyard.api.entities.loading import EntitySummary
from steelyard.api.http.context import RequestContext
from steelyard.views.fields import cursor, has_input
from steelyard.views.view import Query
from steelyard_common.types import JsonValue
from steelyard_schema.dependencies import BASELINE, DATA_SOURCE
from steelyard_schema.entities import PLURALS
from steelyard_schema.status import TERMINAL, statuses

_MOST_COUNTED = 100
_PAGE, _MOST_READ = 200, 2000
"""Entities that are read where no filter selects the dependents: the newest, a page at a time."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class _Use:
    """A way in which entities of one kind use another entity."""

    kind: str
    filters: Callable[[Mapping[str, JsonValue]], Mapping[str, str]]
    """Filters of a query for the dependents, made of the used entity."""
    uses: Callable[[Mapping[str, JsonValue], str], bool] | None = None
    """Predicate of whether an entity uses the id; None if the filters select dependents alone."""


def _filter_use(kind: str, name: str) -> _Use:
    return _Use(kind, lambda used: {name: used["id"]})


def _with_input(kind: str) -> _Use:
    return _Use(kind, lambda used: {name: text for name, (text,) in has_input(used["id"]).items()})


def _has_precondition(user: Mapping[str, JsonValue], id: str) -> bool:
    return any(needed["id"] == id for needed in (user.get("metadata") or {}).get("preconditions") or ())


def _mounts(service: Mapping[str, JsonValue], id: str) -> bool:
    mounts = (service.get("runner") or {}).get("volumeMounts") or ()
    return any(mount["data"]["source"]["id"] == id for mount in mounts if mount.get("data"))


def _has_baseline(audit: Mapping[str, JsonValue], id: str) -> bool:
    return any(note["key"] == BASELINE and note["value"] == id for note in audit.get("annotations") or ())


def _is_made_from(dataset: Mapping[str, JsonValue], id: str) -> bool:
    notes = dataset.get("annotations") or ()
    return any(note["key"] == DATA_SOURCE and note["value"] == id for note in notes)


def _has_module(user: Mapping[str, JsonValue], id: str) -> bool:
    notebook = (user.get("implementation") or {}).get("jupyterNotebook") or {}
    return id in (user.get("modules") or ()) or notebook.get("notebookModule") == id


_WITH_MODULES = ("Report", "Method")
_INPUTS = (_with_input("Measurement"), _with_input("SafetyCase"))
_MOUNTED = _Use("InferenceService", lambda used: {}, _mounts)
_USES: Mapping[str, Sequence[_Use]] = {
    "Dataset": (
        _filter_use("Evaluation", "dataset"),
        _filter_use("Report", "dataset"),
        _Use(
            "AuditProcedure",
            lambda used: {},
            lambda user, id: any(requirement["dataset"] == id for requirement in user["requirements"]),
        ),
        _MOUNTED,
        *_INPUTS,
    ),
    "Module": (
        *(_Use(kind, lambda used: {}, _has_module) for kind in _WITH_MODULES),
        _MOUNTED,
    ),
    "DataSource": (_Use("Dataset", lambda used: {}, _is_made_from),),
    "Model": (_filter_use("InferenceService", "model"), _MOUNTED),
    "InferenceService": (
        _filter_use("InferenceSession", "inferenceService"),
        _filter_use("Evaluation", "inferenceService"),
        _filter_use("Audit", "inferenceService"),
    ),
    "InferenceSession": (
        _Use(
            "Evaluation",
            lambda used: {"inferenceService": used["inferenceService"]["id"]},
            lambda user, id: user.get("inferenceSessionReference") == id,
        ),
    ),
    "Evaluation": (_filter_use("Report", "evaluation"), *_INPUTS),
    "Report": (
        _Use("Audit", lambda used: {"inferenceService": used["inferenceService"]}, _has_precondition),
        *_INPUTS,
    ),
    "Method": (_filter_use("Measurement", "method"), _filter_use("SafetyCase", "method")),
    "Measurement": _INPUTS,
    "Pipeline": (_filter_use("PipelineRun", "pipeline"),),
    "Challenge": (_filter_use("Team", "challenge"), _filter_use("Submission", "challenge")),
    "Team": (_filter_use("Submission", "team"),),
    "AuditProcedure": (_filter_use("Audit", "auditProcedure"),),
    "Audit": (_Use("Audit", lambda used: {}, _has_baseline),),
}
"""Uses of entities, by the kind that is used."""


async def warning(context: RequestContext, entity: EntitySummary) -> str | None:
    """Return `Dataset 89ab… is used by 2 evaluations, …`, or None. Only entities that the caller may see count."""
    dependents: dict[str, dict[str, Mapping[str, JsonValue]]] = {}
    for use in _USES.get(entity.kind, ()):
        async for dependent in _dependents(context, use, entity.content):
            dependents.setdefault(use.kind, {})[dependent["id"]] = dependent
    parts = [_in_words(kind, list(by_id.values())) for kind, by_id in dependents.items()]
    return f"{entity.kind} {entity.id} is used by {'; '.join(parts)}" if parts else None


async def _dependents(
    context: RequestContext, use: _Use, used: Mapping[str, JsonValue]
) -> AsyncIterator[Mapping[str, JsonValue]]:
    """Yield at most `_MOST_COUNTED` dependents, the newest first."""
    alive = [status for status in statuses(use.kind) if status != "Deleted"]
    try:
        filters: dict[str, Sequence[str]] = {name: (value,) for name, value in use.filters(used).items()}
    except (
        LookupError,
        TypeError,
    ):  # an entity of an older version may lack a field: every candidate is read
        filters = {}
    query = Query(
        use.kind,
        {**filters, "status": alive},
        scope=context.access.scope(PLURALS[use.kind], "query"),  # type: ignore[arg-type]
        order_by="creationTime",
        order="descending",
        limit=_PAGE,
    )
    left = _MOST_COUNTED
    for _ in range(_MOST_READ // _PAGE):
        page = [orjson.loads(json) for json in await context.api.entities.query(query)]
        for candidate in page:
            if left and _is_dependent(use, candidate, used["id"]):
                left -= 1
                yield candidate
        if not left or len(page) < _PAGE:
            return
        query = replace(query, after=cursor(page[-1], use.kind, query.order_by))


def _is_dependent(use: _Use, candidate: Mapping[str, JsonValue], id: str) -> bool:
    try:
        return use.uses is None or use.uses(candidate, id)
    except (LookupError, TypeError, AttributeError):  # an entity of an older version may have another form
        return False


def _in_words(kind: str, dependents: Sequence[Mapping[str, str]]) -> str:
    """Return `2 audits (1 has not ended: 0123…; ended: 4567…)`."""
    count = f"{_MOST_COUNTED} or more" if len(dependents) >= _MOST_COUNTED else str(len(dependents))
    noun = PLURALS[kind] if len(dependents) > 1 else kind.lower()
    running = [dependent["id"] for dependent in dependents if dependent["status"] not in TERMINAL]
    ended = [dependent["id"] for dependent in dependents if dependent["status"] in TERMINAL]
    if not running:
        return f"{count} {noun}: {_list(ended)}"
    have = "has" if len(running) == 1 else "have"
    text = f"{count} {noun}, of which {len(running)} {have} not ended: {_list(running)}"
    return f"{text} (ended: {_list(ended)})" if ended else text


def _list(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_MOST_NAMED]) + (" …" if len(ids) > _MOST_NAMED else "")
