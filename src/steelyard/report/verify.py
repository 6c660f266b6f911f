"""Checks a report against the files it was made from: digests, every score and number once more, the page byte by byte.

`steelyard report verify` calls it. What is checked is said, one thing after the other; what cannot be is said, too.
"""

import math
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.errors import SteelyardError, UsageError
from steelyard.report import document
from steelyard.report.attest import BadAttestation, key_id, payload_of
from steelyard.report.attest_report import ATTESTATION, statement_of
from steelyard.report.joined import sha256_of
from steelyard.report.page import numbers_inside
from steelyard.report.report import (
    NUMBERS,
    PAGE,
    Report,
    Request,
    Scored,
    draw_report,
    score_files,
    score_report,
)
from steelyard.report.status import counts_of
from steelyard.report.wording import count
from steelyard.storage.files import FileStore
from steelyard.storage.store import StorageError

Json = Any
CLOSE = 1e-9
"""Relative: what two versions of a numerical library may differ by."""
MOST_TOLD = 10
LISTED = 20
"""Files of one sort that get a line each."""


@dataclass(frozen=True)
class Places:
    """Where the files lie: the report's own, the dataset, the verified output, the records of row errors."""

    report: Path
    dataset: Path
    evaluation: Path
    errors: Path

    def of(self, what: str, path: str) -> Path | None:
        """The file that a line of evidence names; None where it is in none of these folders (a model)."""
        match what:
            case document.DATASET:
                return self.dataset / path
            case document.OUTPUTS | document.RECORD:
                return self.evaluation / path
            case document.ERRORS:
                return self.errors / path
            case document.SCORES | document.PAGES | document.ASKED:
                return self.report / path
        return None


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `left out` is no fault: it could not be looked at."""

    what: str
    state: Literal["fine", "fault", "left out"] = "fine"


def fault(what: str) -> Check:
    return Check(what, "fault")


class NotAReport(UsageError):
    """The file is no report's page, and no report.json."""


def folder_of(file: Path) -> Path:
    """The folder of a report that one of its two files names; NotAReport for anything else."""
    if file.name not in {PAGE, NUMBERS}:
        raise NotAReport(f"report verify {file}: should be a {PAGE} or a {NUMBERS}")
    if not file.is_file():
        raise NotAReport(f"report verify {file}: there is no such file")
    return file.parent


async def verify_report(places: Places, key: Ed25519PublicKey | None = None) -> AsyncIterator[Check]:
    """Every check, in order. The report is as it was made if none of them is a fault."""
    files = {name: _read(places.report / name) for name in (PAGE, NUMBERS)}
    for name, data in files.items():
        if data is None:
            yield fault(f"{name}: is missing")
    page, raw = files[PAGE], files[NUMBERS]
    if page is None or raw is None:
        return
    numbers = _numbers(raw)
    if numbers is None:
        yield fault(f"{NUMBERS}: is not the JSON of a report")
        return
    inside = numbers_inside(page)
    same = inside is not None and _parsed(inside) == numbers
    yield (
        Check(f"{PAGE}: holds the numbers of {NUMBERS}")
        if same
        else fault(f"{PAGE}: does not hold the numbers of {NUMBERS}")
    )
    for check in _digests(numbers["evidence"], places):
        yield check
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
        async for check in _again(numbers, places, Path(scratch)):
            yield check
    for check in _attested(places.report, page, raw, key):
        yield check


def _digests(evidence: Sequence[Json], places: Places) -> Iterator[Check]:
    sorts = dict.fromkeys(each["what"] for each in evidence)
    for what in sorts:
        files = [each for each in evidence if each["what"] == what]
        if places.of(what, "x") is None:
            yield Check(f"{what}: {count(len(files))} files lie elsewhere", "left out")
            continue
        faults = 0
        for each in files:
            wrong = _digest_fault(each, places)
            faults += bool(wrong)
            if wrong:
                yield fault(f"{what}: {wrong}")
            elif len(files) <= LISTED:
                yield Check(f"{what}: {each['path']}, SHA-256 {each['sha256'][:12]}…")
        if len(files) > LISTED:
            yield Check(
                f"{what}: {count(len(files) - faults)} of {count(len(files))} files have their SHA-256"
            )


def _digest_fault(each: Json, places: Places) -> str:
    path = places.of(each["what"], each["path"])
    if path is None or not path.is_file():
        return f"{each['path']} is missing" + (f" ({path})" if path else "")
    found = sha256_of(path)
    if found != each["sha256"]:
        return f"{each['path']} has the SHA-256 {found[:12]}… instead of {each['sha256'][:12]}…"
    return ""


async def _again(numbers: Json, places: Places, scratch: Path) -> AsyncIterator[Check]:
    """The report made once more from the same files, and compared."""
    try:
        scored = await score_report(_request(numbers, places), scratch)
        recorded = [places.report / name for name in score_files(scored.request.rubrics)]
        same = True
        for rubric, new, old in zip(scored.request.rubrics, scored.scores, recorded, strict=True):
            check = _rescored(rubric, new, old)
            same = same and check.state == "fine"
            yield check
        # Equal scores may lie in files of other bytes, written by another version of Parquet's library.
        drawn = await draw_report(replace(scored, scores=tuple(recorded)) if same else scored, scratch)
    except (
        SteelyardError,
        StorageError,
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        yield fault(f"scoring again: {error}")
        return
    for check in (*_compared(numbers, orjson.loads(drawn.numbers)), *_drawn(drawn, scored, places.report)):
        yield check


def _rescored(rubric: str, new: Path, old: Path) -> Check:
    table = pq.read_table(new)
    try:
        before = pq.read_table(old)
    except (OSError, pa.ArrowException) as error:
        return fault(f"{old.name}: {error}")
    different = _different(before, table)
    if different:
        return fault(f"{rubric}: {different}")
    rows = f"{count(table.num_rows)} rows ({counts_of(table)})"
    return Check(f"{rubric}: {rows} scored again have the scores of {old.name}")


def _different(before: pa.Table, now: pa.Table) -> str:
    if before.column_names != now.column_names or before.num_rows != now.num_rows:
        return f"scoring again gives {now.num_rows} rows of {', '.join(now.column_names)}"
    for name in now.column_names:
        if before[name].equals(now[name]):
            continue
        old, new = before[name].to_pylist(), now[name].to_pylist()
        rows = [k for k in range(len(new)) if not _equal(old[k], new[k])]
        if rows:
            index = now["_index_"][rows[0]].as_py()
            first = f"first of row {index}: {old[rows[0]]!r}, again {new[rows[0]]!r}"
            return f"{name} of {count(len(rows))} rows differs, {first}"
    return ""


def _compared(told: Json, again: Json) -> Iterator[Check]:
    before, now = dict(_leaves(told)), dict(_leaves(again))
    places = list(dict.fromkeys([*before, *now]))
    different = [place for place in places if not _equal(before.get(place), now.get(place))]
    figures = sum(isinstance(value, int | float) and not isinstance(value, bool) for value in now.values())
    for place in different[:MOST_TOLD]:
        yield fault(f"{NUMBERS}, {place}: says {_said(before, place)}, computed again {_said(now, place)}")
    if len(different) > MOST_TOLD:
        yield fault(f"{NUMBERS}: {count(len(different) - MOST_TOLD)} more differ")
    if not different:
        yield Check(
            f"{NUMBERS}: {count(figures)} numbers and {count(len(now) - figures)} words computed again are the same"
        )


def _drawn(drawn: Report, scored: Scored, folder: Path) -> Iterator[Check]:
    made = {NUMBERS: drawn.numbers, PAGE: drawn.page}
    made |= {path: file.read_bytes() for path, file in drawn.beside.items() if file not in scored.scores}
    made = {path: data for path, data in made.items() if not path.endswith(".parquet")}
    for path, data in made.items():
        found = _read(folder / path)
        if found == data:
            yield Check(f"{path}: drawn again, is the same byte for byte")
        elif found is None:
            yield fault(f"{path}: is missing")
        else:
            yield fault(f"{path}: drawn again, differs from byte {_first_difference(found, data)} on")


def _attested(folder: Path, page: bytes, numbers: bytes, key: Ed25519PublicKey | None) -> Iterator[Check]:
    data = _read(folder / ATTESTATION)
    if data is None:
        state: Literal["fault", "left out"] = "left out" if key is None else "fault"
        yield Check(f"{ATTESTATION}: there is none", state)
        return
    try:
        payload, signed = payload_of(data, key)
    except BadAttestation as error:
        yield fault(f"{ATTESTATION}: {error}")
        return
    try:
        right = payload == statement_of(page, numbers)
    except (LookupError, TypeError, ValueError):
        right = False
    yield (
        Check(f"{ATTESTATION}: is about these files")
        if right
        else fault(f"{ATTESTATION}: is not the statement about these files")
    )
    if key is not None:
        yield Check(f"{ATTESTATION}: is signed by the key {key_id(key)[:12]}…")
    elif signed:
        yield Check(f"{ATTESTATION}: is signed; its signature needs --key", "left out")


def _request(numbers: Json, places: Places) -> Request:
    """What the report says that it was asked."""
    scoring = numbers["scoring"]
    asked = [each["path"] for each in numbers["evidence"] if each["what"] == document.ASKED]
    rubric, *more = scoring["rubrics"]
    return Request(
        rubric=rubric,
        more=tuple(more),
        dataset=FileStore(places.dataset),
        evaluation=FileStore(places.evaluation),
        errors=FileStore(places.errors),
        names=numbers["names"],
        dataset_view=_view(numbers["datasetView"]),
        evaluation_view=_view(scoring["evaluationView"]),
        reducers=tuple(scoring["reducers"]),
        group_by=tuple(scoring["groupBy"]),
        cluster_by=scoring["clusterBy"],
        records={path: _read(places.report / path) or b"" for path in asked},
        row_pages=scoring["rowPages"],
    )


@dataclass(frozen=True)
class _Adapter:
    kind: str
    configuration: Json


def _view(pipeline: Sequence[Json]) -> list[_Adapter]:
    return [_Adapter(each["kind"], each["configuration"]) for each in pipeline]


def _numbers(raw: bytes) -> Json | None:
    told = _parsed(raw)
    there = isinstance(told, dict) and {"scoring", "evidence", "names", "datasetView"} <= told.keys()
    return (
        told
        if there and all({"what", "path", "sha256"} <= each.keys() for each in told["evidence"])
        else None
    )


def _parsed(data: bytes) -> Json:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _leaves(value: Json, place: str = "") -> Iterator[tuple[str, Json]]:
    """Every value that is not a list or an object, by where it stands."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _leaves(each, f"{place}[{number}]")
    else:
        yield place, value


def _equal(one: Json, other: Json) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12) or (
            math.isnan(one) and math.isnan(other)
        )
    return bool(one == other) and type(one) is type(other)


def _said(leaves: Mapping[str, Json], place: str) -> str:
    return repr(leaves[place])[:80] if place in leaves else "nothing"


def _first_difference(one: bytes, other: bytes) -> int:
    most = min(len(one), len(other))
    pair = np.frombuffer(one[:most], np.uint8) != np.frombuffer(other[:most], np.uint8)
    return int(pair.argmax()) if pair.any() else most


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
