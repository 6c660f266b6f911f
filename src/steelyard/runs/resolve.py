"""What exactly is asked, and whether a folder holds the answers to just that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from steelyard.errors import UsageError
from steelyard.evaluation.manifest import FileEntry
from steelyard.evaluation.shape import INDEX
from steelyard.runs.folder import RunFolder
from steelyard.runs.prompts.inputs import Rows, chosen, mapped, open_rows
from steelyard.runs.request import ENDPOINT, RunRequest, SourceSpec, digest_of, identity_of
from steelyard.types import JsonValue

RUNS = Path("runs")


@dataclass(frozen=True)
class Asked:
    """A request beside the rows that it means, and the folder of its answers."""

    request: RunRequest
    rows: Rows
    source: SourceSpec
    """How `rows` are read: as the request says, or as they lie in the folder."""
    columns: tuple[str, ...]
    """Of the dataset, under the names that the prompt uses."""
    identity: Mapping[str, JsonValue]
    folder: RunFolder
    questions: int

    @property
    def total(self) -> int:
        """Calls to be answered."""
        return self.questions * self.request.replications


def ask(request: RunRequest, folder: Path | None = None) -> Asked:
    """Look at the source, before anything is written. Blocking; UsageError says what is wrong."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {folder}: is a file; it should be a folder, new or of this run")
    try:
        rows = open_rows(request.source)
    except UsageError:
        if folder is None or (kept := _kept(request, RunFolder(folder))) is None:
            raise
        return kept
    if not rows.count:
        raise UsageError(f"{request.source.location}: has no rows to ask")
    columns = tuple(new for new, _ in mapped(rows.schema, request.source.columns, request.source.location))
    identity = _identity(request, rows.files, folder)
    wanted = chosen(request.source, rows.count)
    path = folder or RUNS / f"{request.source.stem}-{digest_of(identity)[:8]}"
    return Asked(
        request=_scored_as_before(request, RunFolder(path)),
        rows=rows,
        source=request.source,
        columns=tuple(name for name in columns if name != INDEX),
        identity=identity,
        folder=RunFolder(path),
        questions=rows.count if wanted is None else len(wanted),
    )


def _identity(
    request: RunRequest, files: Sequence[FileEntry], folder: Path | None
) -> Mapping[str, JsonValue]:
    """The identity; without the endpoint where the folder is of a version that did not count it, and it is the same."""
    identity = identity_of(request, files)
    run = {} if folder is None else _record(RunFolder(folder))
    if ENDPOINT not in run.get("identity", {}) and _endpoint_of(run) == identity[ENDPOINT]:
        del identity[ENDPOINT]
    return identity


def _record(folder: RunFolder) -> dict[str, JsonValue]:
    """run.json; empty where nothing was begun."""
    try:
        record: dict[str, JsonValue] = orjson.loads(folder.run_json.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{folder.run_json}: is not JSON: {error}") from error
    return record


def _endpoint_of(run: Mapping[str, JsonValue]) -> JsonValue:
    """Who was asked: older versions kept it beside the identity."""
    return run.get("identity", {}).get(ENDPOINT) or sorted(run.get("settings", {}).get("urls") or ())


def _scored_as_before(request: RunRequest, folder: RunFolder) -> RunRequest:
    """Asked again without a rubric, a run that was scored is scored so again: its report is about `run.yaml`."""
    if not folder.begun:
        return request
    before = folder.request()
    # What a report was made by stays. A rubric that never scored anything may be a mistake that is being mended.
    kept = before.rubrics if folder.numbers.exists() or not request.rubrics else ()
    return replace(
        request,
        rubrics=(*kept, *(rubric for rubric in request.rubrics if rubric not in kept)),
        reducers=request.reducers or before.reducers,
        group_by=request.group_by or before.group_by,
        cluster_by=request.cluster_by or before.cluster_by,
        judges=request.judges or before.judges,
    )


def set_aside(asked: Asked) -> Path | None:
    """Give the folder of a run that was begun another name, so that every row is asked anew; nothing is deleted.

    Returns the new name. UsageError where the rows to ask are to be had in that folder alone.
    """
    path = asked.folder.path
    if not asked.folder.begun and not path.exists():
        return None
    if asked.source != asked.request.source:
        raise UsageError(f"--fresh: {asked.request.source.location}: is no longer there to be asked anew")
    number = 1
    while (other := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    return path.rename(other)


def check_grouping(asked: Asked) -> None:
    """UsageError for a column to group or cluster by, or for judges to compare with, that there is not."""
    request = asked.request
    flags = [*(("--group-by", name) for name in request.group_by), ("--cluster-by", request.cluster_by)]
    flags += [("--judge-against", judge.against) for judge in request.judges]
    for flag, name in flags:
        if name is not None and name not in asked.columns:
            raise UsageError(
                f"{flag} {name}: {request.source.location} has no such column; it has {', '.join(asked.columns)}"
            )


def _kept(request: RunRequest, folder: RunFolder) -> Asked | None:
    """The same from the folder alone, where its prompt file is no longer to be had; None where it cannot be."""
    if not folder.run_json.exists() or folder.request().source != request.source:
        return None
    before = orjson.loads(folder.run_json.read_bytes())["identity"]
    names = before.get("revision") or [request.source.location] * len(before["source"])
    files = [FileEntry(path=name, rows=0, **part) for name, part in zip(names, before["source"], strict=True)]
    source = SourceSpec(str(folder.inputs_file))
    rows = open_rows(source)
    return Asked(
        request=_scored_as_before(request, folder),
        rows=rows,
        source=source,
        columns=tuple(name for name in rows.schema.names if name != INDEX),
        identity=_identity(request, files, folder.path),
        folder=folder,
        questions=rows.count,
    )


def check_unchanged(asked: Asked) -> bool:
    """Whether the folder's answers were begun, for just this; UsageError says what differs."""
    run = _record(asked.folder)
    if not run:
        return False
    before, now = run.get("identity", {}), orjson.loads(orjson.dumps(dict(asked.identity), default=str))
    if ENDPOINT in now:
        before[ENDPOINT] = _endpoint_of(run)
    changed = [_change(name, before.get(name), now[name]) for name in now if before.get(name) != now[name]]
    if not changed:
        return True
    where = f"{asked.folder.path}: was begun with {'; '.join(changed)}. "
    if len(changed) == 1 and now.get(ENDPOINT) != before.get(ENDPOINT):
        there = " ".join(f"--same-model-at {url}" for url in asked.request.called)
        raise UsageError(
            f"{where}Where the same model answers there, go on with: steelyard eval run {asked.folder.path} {there}; "
            "to ask every row again: --fresh"
        )
    raise UsageError(f"{where}Ask the same again, choose another folder (--output), or ask anew (--fresh)")


def _change(name: str, before: JsonValue, now: JsonValue) -> str:
    if name == "source":
        return f"another prompt file (its SHA-256 was {_sha(before):.8}…, now {_sha(now):.8}…)"
    return f"another {name} ({_short(before)}, now {_short(now)})"


def _sha(files: JsonValue) -> str:
    return str(files[0]["sha256"]) if files else "unknown"


def _short(value: JsonValue) -> str:
    text = "none" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
