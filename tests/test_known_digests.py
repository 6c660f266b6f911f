"""Kept files are compared with their known digests: every form of manifest, every way of reading, every damage."""

import ast
import asyncio
import hashlib
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from steelyard.api.datasets.delivery import read_content, stream_file
from steelyard.api.http.errors import ContentChanged
from steelyard.cli.sign import sign_report
from steelyard.local.moving import check_exported
from steelyard.services.backup.mirror import mirror
from steelyard.steps.fetch_volume import copy as copy_volume
from steelyard.steps.volume import VolumeFile, VolumeManifest
from steelyard_common.errors import Refused, UsageError
from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.fetch import fetch_input, fetch_module
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.manifest import FileEntry, Manifest, RowCounts
from steelyard_evaluation.engine.publication import OutputManifest, Publication, PublishedFile
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.report.audit.example import make_stored_report
from steelyard_evaluation.report.audit.inputs import read_baseline, read_report
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.evidence.test_verify import KEY as KEY_OF_TEST
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.runs.compare import compare_runs
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.export import export
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.queries import story
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.checked import (
    PIECE,
    PUBLISHED,
    CheckedStore,
    DigestMismatch,
    EntityDigests,
    check_object,
    check_pieces,
    read_digests,
    with_checks,
    without_checks,
)
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.staging import Area, Entry, ExpectedFile, UploadManifest, finalise
from steelyard_evaluation.storage.store import StorageError, Store, sync_reader
from steelyard_schema.names import MANIFEST
from tests.source import modules, place, short_name

KEY = "deep/file.parquet"
CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
_FIELDS = {"path": KEY, "size": len(CONTENT), "sha256": DIGEST}
_ROWS = RowCounts(total=1, present=1, errors=0, missing=0, duplicates=0)
_PUBLISHED = OutputManifest(epoch="1-a", files=[PublishedFile.model_validate(_FIELDS)]).model_dump_json()
FORMS = {
    "an upload": (MANIFEST, UploadManifest(files=[Entry(**_FIELDS, md5="x")]).model_dump_json()),
    "a volume": (MANIFEST, VolumeManifest(source={}, files=[VolumeFile(**_FIELDS)]).model_dump_json()),
    "an evaluation": (
        MANIFEST,
        Manifest(
            evaluation="e",
            replications=[],
            inputs=[],
            files=[FileEntry(**_FIELDS, rows=1)],
            rows=_ROWS,
            parts=[],
            leftOut=[],
        ).model_dump_json(),
    ),
    "an analysis": (MANIFEST, _PUBLISHED),
    "a report or an audit": (f"{PUBLISHED}0001-a.json", _PUBLISHED),
}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "the last bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "shorter": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "empty": lambda data: b"",
}


async def _listed(store: Store, _: Path) -> object:
    return [info.key async for info in store.list()]


async def _downloaded(store: Store, folder: Path) -> object:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    await store.download(KEY, folder / "copy")
    return (folder / "copy").read_bytes()


async def _read(store: Store, _: Path) -> object:
    with sync_reader(store, KEY) as file:
        file.seek(7)
        return file.read(9)


async def _pieces(store: Store, _: Path) -> object:
    assert isinstance(store, CheckedStore)
    known = (await store.digests())[KEY]
    return [piece async for piece in check_pieces(store.unchecked, KEY, (await store.head(KEY)).size, known)]


WAYS: dict[str, Callable[[Store, Path], Awaitable[object]]] = {
    "get": lambda store, _: store.get(KEY),
    "get_range": lambda store, _: store.get_range(KEY, 7, 9),
    "download": _downloaded,
    "sign": lambda store, _: store.sign("GET", KEY, timedelta(hours=1)),
    "reader": _read,
    "pieces": _pieces,
}


async def kept(root: Path, form: str) -> FileStore:
    store, (place, manifest) = FileStore(root / "kept"), FORMS[form]
    await store.put(KEY, CONTENT)
    await store.put(".steelyard/progress.json", b"{}")
    await store.put(place, manifest.encode())
    return store


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
async def test_kept_files_are_read_as_they_are_and_changed_ones_are_refused(
    form: str, way: str, tmp_path: Path
) -> None:
    plain, read = await kept(tmp_path, form), WAYS[way]
    store = with_checks(plain)
    await store.digests()
    await read(store, tmp_path)
    assert await store.get(".steelyard/progress.json") == b"{}", "what no manifest names is read as it is"
    for damage, change in DAMAGES.items():
        await plain.put(KEY, change(CONTENT))
        store = with_checks(plain)
        await store.digests()
        with pytest.raises(
            DigestMismatch, match=rf"{KEY} is not what was kept: its SHA-256 is .* says {DIGEST}"
        ):
            await read(store, tmp_path / damage)
    await plain.put(KEY, CONTENT)
    await read(with_checks(plain), tmp_path)


@pytest.mark.parametrize("form", FORMS)
async def test_a_file_that_is_missing_is_found_by_a_listing(form: str, tmp_path: Path) -> None:
    plain = await kept(tmp_path, form)
    assert KEY in [info.key async for info in with_checks(plain).list()]
    await plain.delete(KEY)
    with pytest.raises(DigestMismatch, match=f"{KEY} is missing, and its manifest names it"):
        await _listed(with_checks(plain), tmp_path)
    assert [info.key async for info in with_checks(plain).list("other/")] == []


async def test_a_download_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    plain = await kept(tmp_path, "a volume")
    await plain.put(KEY, b"other")
    with pytest.raises(DigestMismatch):
        await with_checks(plain).download(KEY, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def test_the_last_piece_of_a_changed_file_does_not_come(tmp_path: Path) -> None:
    store, content = FileStore(tmp_path), b"a" * (2 * PIECE + 1)
    await store.put("large", content)
    known = hashlib.sha256(content).hexdigest()
    assert b"".join([piece async for piece in check_pieces(store, "large", len(content), known)]) == content
    assert b"".join([piece async for piece in check_pieces(store, "large", len(content), None)]) == content
    pieces = check_pieces(store, "large", len(content), "0" * 64)
    assert [len(await anext(pieces)), len(await anext(pieces))] == [PIECE, PIECE]
    with pytest.raises(DigestMismatch):
        await anext(pieces)
    await store.put("empty", b"")
    assert [piece async for piece in check_pieces(store, "empty", 0, hashlib.sha256(b"").hexdigest())] == [
        b""
    ]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"files": 5}', b'{"files": ["x"]}', b'{"files": [{"sha256": "a"}]}']
)
async def test_a_manifest_that_was_changed_is_refused(content: bytes, tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.put(MANIFEST, content)
    with pytest.raises(DigestMismatch, match="is not the manifest that was written here"):
        await read_digests(store)


async def test_the_platforms_files_are_found_by_their_keys(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for id in ("a", "b"):
        await store.put(
            f"datasets/{id}/{MANIFEST}", json.dumps({"files": [{"path": "x", "sha256": id}]}).encode()
        )
    digests = EntityDigests(store)
    keys = ("datasets/a/x", "datasets/a/y", "datasets/b/x", "datasets/c/x", "uploads", "log/events")
    assert [await digests.find(key) for key in keys] == ["a", None, "b", None, None, None]


async def test_it_is_for_reading_alone(tmp_path: Path) -> None:
    plain = await kept(tmp_path, "a volume")
    store = with_checks(plain)
    assert with_checks(store) is store
    assert without_checks(store) is plain
    assert without_checks(plain) is plain
    (tmp_path / "file").write_bytes(b"x")
    for write in (
        store.put("k", b""),
        store.create("k", b""),
        store.put_file("k", tmp_path / "file"),
        store.create_file("k", tmp_path / "file"),
        store.copy(KEY, "k"),
        store.delete(KEY),
    ):
        with pytest.raises(StorageError, match="kept files are read here, and not changed"):
            await write
    assert (await store.head(KEY)).size == len(CONTENT)
    await check_object(plain, KEY, DIGEST)
    with pytest.raises(DigestMismatch):
        await check_object(plain, KEY, "0" * 64)


# Where content of stores is read. A module that is new here says how it compares, or why it has nothing to compare.

COMPARED = "reads kept files, and compares them"
MANIFESTS = "reads manifests themselves"
RECORDS = "reads records of the platform's own, which no manifest names"
DIGESTED = "reads records that hold their own digests, and the files whose digests they hold"
PART = "reads a part, of which no more than a refusal is made; the step that uses the file compares the whole"
SERVED = "hands the bytes on to clients that compare them, as a store does"
READERS = {
    "steelyard_evaluation/analysis/fetch.py": COMPARED,
    "steelyard_evaluation/analysis/report_files.py": COMPARED,
    "api/datasets/columns.py": PART,
    "api/datasets/delivery.py": COMPARED,
    "api/datasets/downlinks.py": MANIFESTS,
    "api/inference_sessions/sessions.py": MANIFESTS,
    "api/registry/manifests.py": COMPARED,
    "api/registry/referrers.py": RECORDS,
    "api/registry/sealing.py": RECORDS,
    "api/registry/tagging.py": RECORDS,
    "api/registry/uploads.py": COMPARED,
    "api/workflows/logs.py": RECORDS,
    "api/workflows/progress.py": RECORDS,
    "cli/run_folder.py": RECORDS,
    "steelyard_evaluation/engine/checkpoint.py": DIGESTED,
    "steelyard_evaluation/engine/journal.py": DIGESTED,
    "steelyard_evaluation/engine/manifest.py": MANIFESTS,
    "steelyard_evaluation/engine/publication.py": COMPARED,
    "steelyard_evaluation/engine/record.py": DIGESTED,
    "steelyard_evaluation/engine/recount.py": COMPARED,
    "steelyard_evaluation/engine/resume.py": DIGESTED,
    "steelyard_evaluation/engine/source.py": COMPARED,
    "steelyard_evaluation/engine/verify.py": DIGESTED,
    "steelyard_evaluation/hosted/book.py": RECORDS,
    "local/account_copies.py": RECORDS,
    "local/config.py": RECORDS,
    "local/file_copies.py": COMPARED,
    "local/moving.py": COMPARED,
    "steelyard_evaluation/report/answers.py": COMPARED,
    "steelyard_evaluation/report/audit/inputs.py": COMPARED,
    "steelyard_evaluation/report/evidence/inputs.py": COMPARED,
    "steelyard_evaluation/report/page/row_errors.py": COMPARED,
    "steelyard_evaluation/report/publish.py": RECORDS,
    "steelyard_evaluation/report/report.py": MANIFESTS,
    "services/backup/archive.py": COMPARED,
    "services/backup/mirror.py": COMPARED,
    "services/identity.py": RECORDS,
    "services/informer/runner_logs.py": RECORDS,
    "services/lineage/lineage.py": RECORDS,
    "services/sinks/restore.py": RECORDS,
    "services/sinks/view.py": RECORDS,
    "services/storage_server/server.py": SERVED,
    "steps/evaluation_client.py": MANIFESTS,
    "steps/fetch_volume.py": COMPARED,
    "steps/ingest_dataset.py": COMPARED,
    "steps/kept_log.py": RECORDS,
    "steps/model_sources.py": COMPARED,
    "steps/served_server.py": COMPARED,
    "steps/source_files.py": RECORDS,
    "steps/volume.py": MANIFESTS,
    "steelyard_evaluation/storage/staging.py": COMPARED,
}
OWN = (
    "steelyard_evaluation/storage/files.py",
    "steelyard_evaluation/storage/objects.py",
    "steelyard_evaluation/storage/store.py",
    "steelyard_evaluation/storage/checked.py",
)
"""Modules of the stores themselves, and the comparison."""
_STORES = ("storage.store", "storage.checked", "storage.files", "platform.store")


def readers() -> Iterator[str]:
    """Yield the modules that read objects of a store."""
    for path in modules():
        module, source = short_name(path), path.read_text()
        double = path.name.startswith("test_") or path.name in {"contract.py", "doubles.py", "conftest.py"}
        if double or module in OWN or {"simulation", "testing"} & {*path.parts}:
            continue
        if any(name in source for name in _STORES) and any(map(_reads, ast.walk(ast.parse(source)))):
            yield module


def _reads(node: ast.AST) -> bool:
    """Return whether code reads an object: by a method of stores; methods with short names are awaited."""
    awaited = isinstance(node, ast.Await)
    call = node.value if isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Name):
        return call.func.id in {"sync_reader", "get_document"}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in {"get_range", "download"}:
        return True
    return awaited and (name, len(call.args)) in {("get", 1), ("copy", 2)}


def test_every_module_that_reads_stored_files_says_how_it_compares_them() -> None:
    assert sorted(readers()) == sorted(READERS)


def test_every_step_opens_its_inputs_in_one_way() -> None:
    """`input_store` opens what `spec.storage.inputs` names, and compares the bytes that are read."""
    for path in sorted(place("steps").glob("*.py")):
        source = path.read_text()
        # A hosted model's runner reads the ledger of what was spent, which changes with each call.
        other = path.name.startswith("test_") or path.name in {"volume.py", "hosted_model.py"}
        if not other and "storage.inputs" in source:
            assert "input_store(" in source, path.name
            assert "open_store(spec.storage.inputs" not in source.replace("\n", ""), path.name
    opened = place("steps/volume.py").read_text().partition("def input_store(")[2].partition("\ndef ")[0]
    assert "with_checks(" in opened


# Each use of kept files: with the files as they are, and with one bit changed.

Use = Callable[[Path], Awaitable[object]]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def seal(folder: Path, place: str = MANIFEST) -> None:
    """Write the manifest of what lies in a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".steelyard" not in path.parts]
    entries = [
        {
            "path": path.relative_to(folder).as_posix(),
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in files
    ]
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_text(
        json.dumps({"schemaVersion": "0.1", "source": {}, "epoch": "1-a", "files": entries})
    )


async def a_dataset(root: Path) -> Path:
    folder = root / "datasets/d"
    await make_verified(FileStore(folder), FileStore(root / "evaluations/e"))
    seal(folder)
    return folder / "part-0.parquet"


async def a_volume(root: Path) -> Path:
    (root / "models/m").mkdir(parents=True)
    (root / "models/m/config.json").write_text('{"dtype": "float16"}')
    seal(root / "models/m")
    return root / "models/m/config.json"


def of_a_report(name: str, folder: str = "report") -> Callable[[Path], Awaitable[Path]]:
    async def made(root: Path) -> Path:
        await make_stored_report(root, "1" * 32, wrong=(1,))
        seal(root / ("1" * 32) / folder, f"{PUBLISHED}1.json" if folder == "report" else MANIFEST)
        return root / ("1" * 32) / folder / name

    return made


async def an_audit(root: Path) -> Path:
    (root / "earlier").mkdir(parents=True)
    numbers = {
        "schemaVersion": "0.1",
        "audit": "a",
        "system": {"inferenceService": "s", "name": "s"},
        "requirements": [],
    }
    (root / "earlier/audit.json").write_text(json.dumps(numbers))
    seal(root / "earlier", f"{PUBLISHED}1.json")
    return root / "earlier/audit.json"


async def a_run(root: Path, name: str) -> Path:
    prompts = write_prompts(root / "p.parquet", 6)
    async with endpoint(lambda _: "7") as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        await run(request, root / "run")
    return root / "run" / name


def of_a_run(name: str) -> Callable[[Path], Awaitable[Path]]:
    return lambda root: a_run(root, name)


async def _published(root: Path) -> None:
    store = FileStore(root)
    publication = Publication(await claim(store, "1795241700-11111111-0001"))
    manifest = OutputManifest.model_validate_json((root / "attempt.json").read_bytes())
    await publication.complete(manifest)


async def an_attempt(root: Path) -> Path:
    """Files of an attempt that died after it had published its manifest."""
    place = root / ".steelyard/attempts/1795241700-11111111-0001"
    place.mkdir(parents=True)
    (place / "page.html").write_bytes(CONTENT)
    entry = {"path": "page.html", "size": len(CONTENT), "sha256": DIGEST}
    (root / "attempt.json").write_text(json.dumps({"epoch": place.name, "files": [entry]}))
    return place / "page.html"


async def an_analysis(root: Path) -> Path:
    """An output with scores, published by the step."""
    place = root / "analyses/a"
    publication = Publication(await claim(FileStore(place), "1795241700-11111111-0001"))
    await publication.publish({"index.html": b"<p>"}, {".dyff/scores.json": CONTENT}, analysis="a")
    return place / ".dyff/scores.json"


async def _mirrored(root: Path) -> None:
    done = await mirror(
        FileStore(root), FileStore(root / "none"), FileStore(root / "mirror"), datetime.now(UTC)
    )
    if done.changed:
        raise DigestMismatch("", "", "")


async def _exported(root: Path) -> None:
    store, path = FileStore(root), root / "datasets/d/part-0.parquet"
    await check_exported(store, "datasets/d/part-0.parquet", path, EntityDigests(store))


def _signed(root: Path) -> Awaitable[object]:
    pem = KEY_OF_TEST.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (root / "key.pem").write_bytes(pem)
    return asyncio.to_thread(sign_report, root / "run", root / "key.pem")


def _store(root: Path, folder: str) -> CheckedStore:
    return with_checks(FileStore(root / folder))


ONE = "1" * 32
USES: dict[str, tuple[Callable[[Path], Awaitable[Path]], Use]] = {
    "rows of an evaluation": (a_dataset, lambda root: open_source(_store(root, "datasets/d"))),
    "a runner's model": (a_volume, lambda root: copy_volume(FileStore(root / "models/m"), root / "mount")),
    "a module": (a_volume, lambda root: fetch_module(FileStore(root / "models/m"), root / "module")),
    "an analysis' input": (
        a_dataset,
        lambda root: fetch_input(FileStore(root / "datasets/d"), root / "input"),
    ),
    "an analysis' report": (
        of_a_report("report.json"),
        lambda root: fetch_input(FileStore(root / ONE / "report"), root / "input"),
    ),
    **{
        f"an audit's {name}": (
            of_a_report(name),
            lambda root: read_report(ONE, _store(root, f"{ONE}/report"), root / ONE / "scratch"),
        )
        for name in ("report.html", "report.json", "scores.parquet")
    },
    "an earlier audit": (an_audit, lambda root: read_baseline(_store(root, "earlier"))),
    "an attempt's output": (an_attempt, _published),
    "a delivery": (a_dataset, lambda root: stream_file(FileStore(root), "datasets/d/part-0.parquet")),
    "a part of a delivery": (
        a_dataset,
        lambda root: stream_file(FileStore(root), "datasets/d/part-0.parquet", range(4)),
    ),
    "scores that an analysis recorded": (
        an_analysis,
        lambda root: read_content(FileStore(root), "analyses/a/.dyff/scores.json"),
    ),
    "an answer of the API": (a_volume, lambda root: read_content(FileStore(root), "models/m/config.json")),
    "the mirror": (a_dataset, _mirrored),
    "an export of the platform": (a_dataset, _exported),
    **{
        f"an exported run's {name}": (
            of_a_run(name),
            lambda root: asyncio.to_thread(lambda: export(open_run(root / "run"), root / "rows.jsonl")),
        )
        for name in ("inputs/part-00000.parquet", "outputs/part-00000.parquet", "scores.parquet")
    },
    **{
        f"a shown run's {name}": (
            of_a_run(name),
            lambda root: asyncio.to_thread(lambda: story(open_run(root / "run"), 1)),
        )
        for name in (
            "inputs/part-00000.parquet",
            "outputs/part-00000.parquet",
            "scores.parquet",
            "report.json",
        )
    },
    "a compared run": (
        of_a_run("scores.parquet"),
        lambda root: asyncio.to_thread(
            lambda: compare_runs([root / "run", shutil.copytree(root / "run", root / "second")])
        ),
    ),
    **{
        f"a signed report's {name}": (of_a_run(name), _signed)
        for name in (
            "report.html",
            "report.json",
            "scores.parquet",
            "attestation.json",
            "outputs/part-00000.parquet",
        )
    },
}
REFUSALS = (DigestMismatch, AnalysisFailed, ReportFailed, UsageError, ContentChanged, Refused)


@pytest.mark.parametrize("use", USES)
async def test_kept_files_are_used_as_they_are_and_changed_ones_are_not(use: str, tmp_path: Path) -> None:
    make, act = USES[use]
    for name in ("right", "changed"):
        (tmp_path / name).mkdir()
    await make(tmp_path / "right")
    await act(tmp_path / "right")
    path = await make(tmp_path / "changed")
    flip(path)
    with pytest.raises(REFUSALS) as refusal:
        await act(tmp_path / "changed")
    said = str(getattr(refusal.value, "code", "")) + str(refusal.value)
    if not isinstance(refusal.value, DigestMismatch):
        assert "DigestMismatch" in said or "SHA-256" in said or "was changed" in said, said


async def test_a_file_that_was_added_to_a_dataset_is_not_asked(tmp_path: Path) -> None:
    path = await a_dataset(tmp_path)
    (path.parent / "part-1.parquet").write_bytes(path.read_bytes())
    with pytest.raises(DigestMismatch, match="was not kept with the dataset"):
        await open_source(_store(tmp_path, "datasets/d"))


async def test_a_final_file_of_equal_size_is_not_taken_for_the_upload(tmp_path: Path) -> None:
    store, area = FileStore(tmp_path), Area("5eed", "nonce")
    await store.put(area.key("a"), b"right")
    await store.put("datasets/5eed/a", b"wrong")
    await finalise(store, area, [ExpectedFile("a", 5)], "datasets/5eed")
    assert await store.get("datasets/5eed/a") == b"right"
