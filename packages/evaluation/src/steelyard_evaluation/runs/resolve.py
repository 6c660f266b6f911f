"""Resolution of a request to its rows and its folder, and the check that a folder holds answers to that request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue, shorten
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.runs.folder import RunFolder, read_run_record
from steelyard_evaluation.runs.prompts.inputs import Rows, map_columns, open_rows, select_numbers
from steelyard_evaluation.runs.prompts.render import check_parameters
from steelyard_evaluation.runs.request import (
    ENDPOINT,
    OPTIONAL,
    RunRequest,
    SourceSpec,
    check_numbers,
    identity_digest,
    make_identity,
)
from steelyard_schema.columns import lacking

RUNS = Path("runs")


@dataclass(frozen=True)
class ResolvedRequest:
    """A request with the rows that it means and the folder of its answers."""

    request: RunRequest
    rows: Rows
    source: SourceSpec
    """The way `rows` are read: as the request says, or as they lie in the folder."""
    columns: tuple[str, ...]
    """The columns of the dataset, under the names that the prompt uses."""
    identity: Mapping[str, JsonValue]
    folder: RunFolder
    questions: int
    servers: tuple[Mapping[str, JsonValue], ...] = ()
    """Records of the servers that will be asked, where they are known."""

    @property
    def total(self) -> int:
        """The number of calls of the whole run."""
        return self.questions * self.request.replications


def resolve(request: RunRequest, folder: Path | None = None) -> ResolvedRequest:
    """Open the source of `request` and choose its folder; nothing is written.

    Blocking. UsageError says what is wrong.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {folder}: is a file; it should be a folder, new or of this run")
    # Before the identity, which is written as JSON: it holds no number beyond 64 bits.
    check_numbers(request)
    check_parameters(request.prompt.sampling)
    try:
        rows = open_rows(request.source)
    except UsageError:
        # The prompt file may be gone: a run that was begun goes on from the rows that its folder keeps.
        if folder is None or (kept := _resolve_kept(request, RunFolder(folder))) is None:
            raise
        return kept
    if not rows.count:
        raise UsageError(f"{request.source.location}: has no rows to ask")
    columns = tuple(
        new for new, _ in map_columns(rows.schema, request.source.columns, request.source.location)
    )
    identity = _identity(request, rows.files, folder)
    selected = select_numbers(request.source, rows.count)
    path = folder or RUNS / f"{request.source.stem}-{identity_digest(identity)[:8]}"
    return ResolvedRequest(
        request=_with_earlier_rubrics(request, RunFolder(path)),
        rows=rows,
        source=request.source,
        columns=tuple(name for name in columns if name != INDEX),
        identity=identity,
        folder=RunFolder(path),
        questions=rows.count if selected is None else len(selected),
    )


def _identity(
    request: RunRequest, files: Sequence[FileEntry], folder: Path | None
) -> Mapping[str, JsonValue]:
    """The identity of the run: its request and the digests of its files."""
    identity = make_identity(request, files)
    run = {} if folder is None else load_record(RunFolder(folder))
    # Folders of older versions do not count the endpoint: a run that still asks the same one keeps its identity.
    if ENDPOINT not in run.get("identity", {}) and _find_endpoint(run) == identity[ENDPOINT]:
        del identity[ENDPOINT]
    return identity


def load_record(folder: RunFolder) -> dict[str, JsonValue]:
    """The content of run.json; empty where nothing was begun."""
    try:
        return read_run_record(folder.run_json)
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _find_endpoint(run: Mapping[str, JsonValue]) -> JsonValue:
    """The endpoint that was asked; older versions kept it outside the identity."""
    return run.get("identity", {}).get(ENDPOINT) or sorted(run.get("settings", {}).get("urls") or ())


def _with_earlier_rubrics(request: RunRequest, folder: RunFolder) -> RunRequest:
    """The request with the rubrics, reducers and judges of the earlier attempt where it names none of its own.

    The report of a run is about its `run.yaml`: asking again without a rubric must not lose the scores.
    """
    if not folder.begun:
        return request
    before = folder.request()
    # Rubrics that a report was made by stay. One that never scored anything may be a mistake that is being mended.
    kept = before.rubrics if folder.numbers.exists() or not request.rubrics else ()
    return replace(
        request,
        rubrics=(*kept, *(rubric for rubric in request.rubrics if rubric not in kept)),
        reducers=request.reducers or before.reducers,
        group_by=request.group_by or before.group_by,
        cluster_by=request.cluster_by or before.cluster_by,
        judges=request.judges or before.judges,
    )


def set_aside(resolved: ResolvedRequest) -> Path | None:
    """Rename the folder of a run that was begun, so that every row is asked again; nothing is deleted.

    Return the new name, or None where there was no run. UsageError where the rows exist in that folder alone.
    """
    path = resolved.folder.path
    if not resolved.folder.begun and not path.exists():
        return None
    if resolved.source != resolved.request.source:
        raise UsageError(
            f"--fresh: {resolved.request.source.location}: no longer exists, so its rows cannot be asked again"
        )
    number = 1
    while (other := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    return path.rename(other)


ANOTHER_NAME = "a judge that is asked something else needs another name"


def check_grouping(resolved: ResolvedRequest) -> None:
    """Raise UsageError for a missing column to group by, to cluster by, or for judges to compare with."""
    request = resolved.request
    flags = [*(("--group-by", name) for name in request.group_by), ("--cluster-by", request.cluster_by)]
    flags += [("--judge-against", judge.against) for judge in request.judges]
    for flag, name in flags:
        if name is not None and name not in resolved.columns:
            raise UsageError(
                f"{flag} {name}: {request.source.location} has no such column; {lacking([name], resolved.columns)}"
            )


def check_judges(resolved: ResolvedRequest) -> None:
    """Raise UsageError for a judge that was asked something else before: its folder, and run.yaml, stay as they are."""
    if not resolved.folder.begun:
        return
    before = resolved.folder.request()
    for spec in resolved.request.judges:
        folder = resolved.folder.judge(spec.name)
        for earlier in before.judges if folder.run_json.exists() else ():
            if earlier.name != spec.name:
                continue
            one, other = earlier.identity(before.urls), spec.identity(resolved.request.urls)
            changed = [_change(name, one[name], other[name]) for name in one if one[name] != other[name]]
            if changed:
                raise UsageError(
                    f"judge {spec.name}: {folder.path}: was begun with {'; '.join(changed)}. Ask the same again, "
                    f"or ask every row again (--fresh); {ANOTHER_NAME}"
                )


def _resolve_kept(request: RunRequest, folder: RunFolder) -> ResolvedRequest | None:
    """The resolved request from the folder alone, without its prompt file; None where it is of another source."""
    if not folder.run_json.exists() or folder.request().source != request.source:
        return None
    before = read_run_record(folder.run_json)["identity"]
    # A dataset of the hub is recorded by its commits, a file by its digest alone: its name may have changed
    # since.
    names = before.get("revision") or [request.source.location] * len(before["source"])
    files = [FileEntry(path=name, rows=0, **part) for name, part in zip(names, before["source"], strict=True)]
    source = SourceSpec(str(folder.inputs_file))
    rows = open_rows(source)
    return ResolvedRequest(
        request=_with_earlier_rubrics(request, folder),
        rows=rows,
        source=source,
        columns=tuple(name for name in rows.schema.names if name != INDEX),
        identity=_identity(request, files, folder.path),
        folder=folder,
        questions=rows.count,
    )


def check_unchanged(resolved: ResolvedRequest) -> bool:
    """Return whether the folder holds a begun run of just this request; UsageError says what differs."""
    run = load_record(resolved.folder)
    if not run:
        return False
    # Through JSON, as the record was: tuples would differ from lists, and dates from their text.
    before, now = run.get("identity", {}), orjson.loads(orjson.dumps(dict(resolved.identity), default=str))
    if ENDPOINT in now:
        before[ENDPOINT] = _find_endpoint(run)
    # A setting that only the earlier request had changed its answers, too.
    names = [*now, *(name for name in OPTIONAL if name in before and name not in now)]
    changed = [
        _change(name, before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)
    ]
    if not changed:
        return True
    where = f"{resolved.folder.path}: was begun with {'; '.join(changed)}. "
    if len(changed) == 1 and now.get(ENDPOINT) != before.get(ENDPOINT):
        options = " ".join(f"--same-model-at {url}" for url in resolved.request.base_urls)
        raise UsageError(
            f"{where}If the same model answers at the new address, go on with: steelyard eval run "
            f"{resolved.folder.path} {options}; to ask every row again: --fresh"
        )
    raise UsageError(
        f"{where}Ask the same again, choose another folder (--output), or ask every row again (--fresh)"
    )


def _change(name: str, before: JsonValue, now: JsonValue) -> str:
    if name == "source":
        digests = [str(files[0]["sha256"]) if files else "unknown" for files in (before, now)]
        return f"another prompt file (its SHA-256 was {digests[0]:.8}…, now {digests[1]:.8}…)"
    if name == "volumes":
        return f"another model ({', '.join(find_changed_files(before or [], now)[:5])})"
    return f"{name} {_short(before)} (now {_short(now)})"


def find_changed_files(
    before: Sequence[Mapping[str, JsonValue]], now: Sequence[Mapping[str, JsonValue]]
) -> list[str]:
    """Return the names of files that were added, taken away or changed between two lists of volumes."""
    one, other = (
        {file["path"]: file["sha256"] for volume in volumes for file in volume.get("files") or ()}
        for volumes in (before, now)
    )
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _short(value: JsonValue) -> str:
    text = "none" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
    return repr(shorten(" ".join(text.split()), 60))
