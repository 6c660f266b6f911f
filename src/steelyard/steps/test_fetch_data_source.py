"""Data sources, fetched from servers that answer like the hub and like Zenodo."""

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.downloads import Downloads
from steelyard.steps.example import make_config
from steelyard.steps.fetch_data_source import fetch, main
from steelyard.steps.source_servers import (
    COMMIT,
    CONCEPT,
    LATER,
    RECORD,
    TOKEN,
    ServedSource,
    hub_server,
    zenodo_server,
)
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.resources import DataSourceResourceSpec
from steelyard_schema.source_addresses import source_address
from steelyard_schema.steps import SourceLimits

LIMITS = SourceLimits()
FILES = {
    "README.md": b"# rows",
    "data/train.csv": b"a,b\n1,2\n",
    "data/large.jsonl": b'{"a": 1}\n' * 500,
    "data/name with space.csv": b"x\n",
}


@pytest.fixture
def hub() -> Iterator[ServedSource]:
    with hub_server(FILES) as place:
        yield place


@pytest.fixture
def zenodo() -> Iterator[ServedSource]:
    with zenodo_server({name.rpartition("/")[2]: content for name, content in FILES.items()}) as place:
        yield place


async def at_once(seconds: float) -> None:
    assert seconds <= 30


async def _fetch(
    root: Path,
    place: ServedSource,
    source: str = "datasets/org/rows@main",
    *,
    token: str | None = None,
    limits: SourceLimits = LIMITS,
    **fields: Any,
) -> dict[str, bytes]:
    """Fetch a source, and return the files that its manifest lists."""
    kind = "zenodo" if source.startswith("records/") else "huggingface"
    spec = DataSourceResourceSpec.parse(
        {
            "id": "a1",
            "account": "acme",
            "name": "rows",
            "sourceKind": kind,
            "source": f"{place.origin}/{source}",
            "storage": {"output": f"file://{root}/out"},
            **fields,
        }
    )
    address = source_address(kind, spec.source)
    async with aiohttp.ClientSession() as session:
        downloads = Downloads(session, address.origin, token, at_once)
        await fetch(spec, address, downloads, Log("t", io.StringIO()), limits)
    return {file["path"]: (root / "out" / file["path"]).read_bytes() for file in _manifest(root)["files"]}


def _manifest(root: Path) -> Any:
    return json.loads((root / "out/.steelyard/manifest.json").read_bytes())


def _downloads(place: ServedSource) -> list[str]:
    stored = place.store.paths() if place.store else []
    return [path for path in (*place.paths(), *stored) if "/resolve/" in path or "/stored/" in path]


async def test_the_files_of_a_commit_are_kept_with_digests(hub: ServedSource, tmp_path: Path) -> None:
    assert await _fetch(tmp_path, hub) == FILES
    manifest = _manifest(tmp_path)
    assert manifest["source"] == {
        "kind": "huggingface",
        "origin": hub.origin,
        "repository": "org/rows",
        "revision": "main",
        "commit": COMMIT,
    }
    digests = {file["path"]: file["sha256"] for file in manifest["files"]}
    assert digests == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


async def test_the_files_of_a_record_are_kept_and_the_number_of_all_versions_leads_to_the_newest(
    zenodo: ServedSource, tmp_path: Path
) -> None:
    assert await _fetch(tmp_path, zenodo, f"records/{CONCEPT}") == zenodo.files
    assert _manifest(tmp_path)["source"] == {
        "kind": "zenodo",
        "origin": zenodo.origin,
        "asked": str(CONCEPT),
        "record": str(RECORD),
        "doi": f"10.5281/zenodo.{RECORD}",
        "title": "Rows",
        "version": "2.0",
        "license": "cc-by-4.0",
    }


async def test_patterns_choose(hub: ServedSource, tmp_path: Path) -> None:
    assert set(await _fetch(tmp_path, hub, files=["data/*.csv"])) == {
        "data/train.csv",
        "data/name with space.csv",
    }


async def test_patterns_that_choose_nothing_are_an_error(hub: ServedSource, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"no file of http.* matches \*\.parquet"):
        await _fetch(tmp_path, hub, files=["*.parquet"])


async def test_a_connection_that_breaks_is_continued_where_it_broke(
    hub: ServedSource, tmp_path: Path
) -> None:
    assert hub.store is not None
    hub.store.cut = [1000, 2000]
    await _fetch(tmp_path, hub, files=["data/large.jsonl"])
    ranges = [headers.get("range") for _, headers in hub.store.requests]
    assert ranges == [None, "bytes=1000-", "bytes=3000-"]


async def test_a_connection_that_breaks_without_a_byte_ends_the_attempt_and_not_the_source(
    hub: ServedSource, tmp_path: Path
) -> None:
    assert hub.store is not None
    hub.store.cut = [0] * 5
    with pytest.raises(StepFailed, match="cannot be fetched") as failure:
        await _fetch(tmp_path, hub, files=["data/large.jsonl"])
    assert (failure.value.code, failure.value.permanent) == ("FetchFailed", False)
    assert not (tmp_path / "out/.steelyard/manifest.json").exists()


async def test_a_second_attempt_fetches_only_what_is_not_there(hub: ServedSource, tmp_path: Path) -> None:
    assert hub.store is not None
    hub.store.files = {}  # the large file has gone: its place answers 404
    with pytest.raises(StepFailed, match="answers 404"):
        await _fetch(tmp_path, hub)
    hub.store.files = dict(FILES)
    before = len(hub.requests)
    await _fetch(tmp_path, hub)
    asked = [path for path in hub.paths()[before:] if "/resolve/" in path]
    assert {path.partition(f"{COMMIT}/")[2] for path in asked} == FILES.keys() - {"README.md"}
    after = len(hub.requests)
    await _fetch(tmp_path, hub)
    assert len(hub.requests) == after, "a source that is complete is not asked again"


async def test_a_branch_that_moves_between_attempts_does_not_mix_two_versions(
    hub: ServedSource, tmp_path: Path
) -> None:
    assert hub.store is not None
    hub.store.files = {}
    with pytest.raises(StepFailed):
        await _fetch(tmp_path, hub)
    hub.store.files = dict(FILES)
    hub.versions = {COMMIT: FILES, LATER: {"README.md": b"another"}}
    hub.branches["main"] = LATER
    assert await _fetch(tmp_path, hub) == FILES
    assert (_manifest(tmp_path)["source"]["commit"], _manifest(tmp_path)["source"]["revision"]) == (
        COMMIT,
        "main",
    )


@pytest.mark.parametrize("name", ["data/large.jsonl", "data/train.csv"])
async def test_a_file_that_is_not_what_the_hub_states_is_not_kept(
    hub: ServedSource, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = b"x" * len(FILES[name])
    monkeypatch.setattr("steelyard.steps.source_servers._Handler._file", _answering(other))
    with pytest.raises(StepFailed, match=r"is not the file that the source describes: its .*SHA") as failure:
        await _fetch(tmp_path, hub, files=[name])
    assert failure.value.permanent
    assert not (tmp_path / "out" / name).exists()


async def test_a_file_that_is_not_what_zenodo_states_is_not_kept(
    zenodo: ServedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = b"x" * len(FILES["README.md"])
    monkeypatch.setattr("steelyard.steps.source_servers._Handler._file", _answering(other))
    with pytest.raises(StepFailed, match="its MD5 is"):
        await _fetch(tmp_path, zenodo, f"records/{RECORD}", files=["README.md"])


def _answering(content: bytes) -> Any:
    def answer(handler: Any, stated: bytes) -> None:
        handler._head(200, len(content), {})
        handler.wfile.write(content)

    return answer


async def test_more_bytes_than_stated_are_not_read(
    hub: ServedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.steps.source_servers._Handler._file", _answering(b"x" * 100_000))
    with pytest.raises(StepFailed, match=f"more than {len(FILES['README.md'])} bytes"):
        await _fetch(tmp_path, hub, files=["README.md"])


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        (SourceLimits(files=3), "has 4 files, more than the 3 that are allowed"),
        (SourceLimits(bytes=4000), "have 4516 bytes, more than the 4000 that are allowed"),
    ],
)
async def test_what_is_too_much_is_refused_before_anything_is_fetched(
    hub: ServedSource, tmp_path: Path, limits: SourceLimits, match: str
) -> None:
    with pytest.raises(StepFailed, match=match):
        await _fetch(tmp_path, hub, limits=limits)
    assert _downloads(hub) == []


@pytest.mark.parametrize(
    ("status", "permanent"), [(404, True), (403, True), (500, False), (429, False), (503, False)]
)
async def test_refusals_are_permanent_and_outages_are_not(
    hub: ServedSource, tmp_path: Path, status: int, permanent: bool
) -> None:
    hub.statuses = [status] * 5
    with pytest.raises(StepFailed, match=f"answers {status}") as failure:
        await _fetch(tmp_path, hub)
    assert failure.value.permanent == permanent


async def test_an_outage_that_passes_is_waited_for(hub: ServedSource, tmp_path: Path) -> None:
    hub.statuses = [503, 500, 429]
    assert await _fetch(tmp_path, hub) == FILES


async def test_an_unknown_revision_is_named(hub: ServedSource, tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="revision/nothing answers 404"):
        await _fetch(tmp_path, hub, "datasets/org/rows@nothing")


async def test_a_token_opens_what_is_gated_and_is_shown_to_its_own_place_only(
    hub: ServedSource, tmp_path: Path
) -> None:
    hub.token = TOKEN
    with pytest.raises(StepFailed, match=r"answers 401.*needs a token, which secrets\.source names"):
        await _fetch(tmp_path, hub)
    with pytest.raises(StepFailed, match=r"the token of secrets\.source may not read it") as failure:
        await _fetch(tmp_path, hub, token="another")
    assert "another" not in str(failure.value)
    assert await _fetch(tmp_path, hub, token=TOKEN) == FILES
    assert hub.store is not None
    assert hub.store.requests
    assert all("authorization" not in headers for _, headers in hub.store.requests)


async def test_a_path_that_leaves_its_place_is_refused(hub: ServedSource, tmp_path: Path) -> None:
    hub.files["../outside"] = b"x"
    with pytest.raises(StepFailed, match=r"\.\./outside"):
        await _fetch(tmp_path, hub)
    assert _downloads(hub) == []


async def test_an_answer_that_is_no_description_is_reported(hub: ServedSource, tmp_path: Path) -> None:
    hub.branches["main"] = "no commit"
    with pytest.raises(StepFailed, match="not a description of a dataset"):
        await _fetch(tmp_path, hub)


async def test_the_steps_token_goes_to_the_hub_or_its_mirror_and_to_no_other_server(
    hub: ServedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = TOKEN
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/source").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("STEELYARD_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.origin}/")
    fields = {"name": "rows", "sourceKind": "huggingface", "storage": {"output": f"file://{tmp_path}/out"}}
    policy = EgressPolicy(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",))

    async def run(source: str) -> None:
        spec = {**fields, "source": source}
        await main(make_config("fetch_data_source", "DataSource", spec, policy), Log("t", io.StringIO()))

    with pytest.raises(StepFailed, match=r"secrets\.source: a token is for the hub"):
        await run(f"{hub.origin}/datasets/org/rows")
    assert hub.requests == []
    await run("org/rows")
    assert len(_manifest(tmp_path)["files"]) == len(FILES)


async def test_an_address_that_is_not_allowed_is_not_called(hub: ServedSource, tmp_path: Path) -> None:
    fields = {"name": "rows", "sourceKind": "huggingface", "storage": {"output": f"file://{tmp_path}/out"}}
    config = make_config(
        "fetch_data_source", "DataSource", {**fields, "source": f"{hub.origin}/datasets/org/rows"}
    )
    with pytest.raises(StepFailed, match="is not allowed") as failure:
        await main(config, Log("t", io.StringIO()))
    assert failure.value.permanent
    assert hub.requests == []


async def test_what_the_hub_writes_about_a_dataset_is_kept_next_to_its_files(
    hub: ServedSource, tmp_path: Path
) -> None:
    hub.croissant = {"name": "rows", "license": "mit"}
    assert set(await _fetch(tmp_path, hub)) == set(FILES)
    kept = tmp_path / "out/.steelyard/source-croissant.json"
    assert json.loads(kept.read_bytes()) == hub.croissant


async def test_the_description_is_that_of_the_first_attempt(hub: ServedSource, tmp_path: Path) -> None:
    """An attempt that was given up may go on when the data source is ready, and changes nothing of it."""
    assert hub.store is not None
    hub.store.files, hub.croissant = {}, {"name": "rows"}
    with pytest.raises(StepFailed, match="answers 404"):
        await _fetch(tmp_path, hub)
    hub.store.files, hub.croissant = dict(FILES), {"name": "later"}
    await _fetch(tmp_path, hub)
    kept = tmp_path / "out/.steelyard/source-croissant.json"
    assert json.loads(kept.read_bytes()) == {"name": "rows"}


@pytest.mark.parametrize("croissant", [None, {"name": "x" * 600_000}])
async def test_a_dataset_that_is_not_described_is_fetched_all_the_same(
    hub: ServedSource, tmp_path: Path, croissant: Any
) -> None:
    hub.croissant = croissant
    assert await _fetch(tmp_path, hub) == FILES
    assert not (tmp_path / "out/.steelyard/source-croissant.json").exists()
