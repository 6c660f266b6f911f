"""Uploads and downloads: whole files, checked, with progress; what breaks off is done again and never half."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.client.conftest import Ask
from steelyard.client.errors import (
    BadFiles,
    Conflict,
    NotFound,
    TransferFailed,
    UnexpectedAnswer,
)
from steelyard.client.files import CHUNK
from steelyard.client.test_client import FIELDS
from steelyard.client.transfer import find_target
from steelyard.testing.platform import FakePlatform, file_response, lost, refused, unreachable

BIG = b"0123456789" * (CHUNK // 4)  # some pieces
MODULE = {"model.py": b"print()", "data/table.csv": b"a,b\n", "empty.txt": b""}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def module(fake: FakePlatform, folder: Path, files: dict[str, bytes] | None = None, **more: Any) -> str:
    with fake.client() as client:
        root = write(folder, files or MODULE)
        return client.modules.create_from_folder(root, account="acme", name="m", **more).id


def uploaded(fake: FakePlatform, id: str) -> dict[str, bytes]:
    return {key.partition("/")[2]: content for key, content in fake.objects.items() if key.startswith(id)}


def test_a_folder_becomes_an_entity_that_is_ready(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(
        tmp_path, {**MODULE, "a b.bin": BIG, ".hidden": b"x", "__pycache__/m.pyc": b"x", ".git/config": b"x"}
    )
    made = ask(fake, lambda client: client.modules.create_from_folder(tmp_path, account="acme", name="m"))
    assert made.status == "Ready"
    assert uploaded(fake, made.id) == {**MODULE, "a b.bin": BIG}
    assert [artifact.kind for artifact in made.artifacts] == ["bin", "csv", "txt", "py"]
    assert all(artifact.digest.md5 for artifact in made.artifacts)


def test_files_may_be_given_one_by_one(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(tmp_path, {"x.py": b"x", "y.py": b"y"})
    files = {"lib/one.py": tmp_path / "x.py", "two.py": str(tmp_path / "y.py")}
    made = ask(fake, lambda client: client.modules.create_from_folder(files, account="acme", name="m"))
    assert uploaded(fake, made.id) == {"lib/one.py": b"x", "two.py": b"y"}


def test_a_model_says_what_it_takes(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(tmp_path, {"model.onnx": BIG})
    made = ask(fake, lambda client: client.models.create_from_folder(tmp_path, account="acme", name="m"))
    assert made.status == "Created"  # it is fetched next
    assert made.resources.storage == "3Mi"
    assert [(file.path, file.size) for file in made.artifact.volume.files] == [("model.onnx", len(BIG))]
    other = ask(
        fake,
        lambda client: client.models.create_from_folder(
            tmp_path,
            account="acme",
            name="m",
            resources={"storage": "1Gi"},
            storage={"medium": "ObjectStorage"},
        ),
    )
    assert (other.resources.storage, other.storage.medium) == ("1Gi", "ObjectStorage")


def test_all_files_of_a_folder_become_a_data_source(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    files = write(tmp_path, {"a.csv": b"x", "README.md": b"# rows", "croissant.json": b"{}"})
    made = ask(fake, lambda client: client.datasources.create_from_folder(files, account="acme", name="d"))
    assert (made.sourceKind, made.status) == ("upload", "Ready")
    assert uploaded(fake, made.id) == {"a.csv": b"x", "README.md": b"# rows", "croissant.json": b"{}"}


def test_an_upload_can_wait_until_it_is_ready(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(tmp_path, {"a.parquet": b"rows"})
    id = ask(fake, lambda client: client.datasets.create(**FIELDS)).id
    assert ask(fake, lambda client: client.datasets.upload(id, tmp_path, wait=True)).status == "Ready"


def test_progress_is_reported_in_bytes_up_to_the_end(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    write(tmp_path / "up", {"big": BIG, "empty": b""})
    steps: list[tuple[str, int, int]] = []

    def progress(*said: Any) -> None:
        steps.append(said)

    made = ask(
        fake,
        lambda client: client.modules.create_from_folder(
            tmp_path / "up", account="acme", name="m", progress=progress
        ),
    )
    expected = [
        ("big", CHUNK, len(BIG)),
        ("big", 2 * CHUNK, len(BIG)),
        ("big", len(BIG), len(BIG)),
        ("empty", 0, 0),
    ]
    assert steps == expected
    steps.clear()
    ask(fake, lambda client: client.modules.download(made.id, tmp_path / "down", progress=progress))
    assert steps[-1] == ("empty", 0, 0)
    assert steps[-2] == ("big", len(BIG), len(BIG))


@pytest.mark.parametrize("trouble", [lost, unreachable, refused(503), refused(500)])
def test_an_upload_that_breaks_off_is_done_again(
    trouble: Any, ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    write(tmp_path, {"a.parquet": b"rows"})
    id = ask(fake, lambda client: client.datasets.create(**FIELDS)).id

    def once(answer: Any) -> httpx.Response:
        response: httpx.Response = answer()
        fake.trouble.append(trouble)  # the PUT comes next
        return response

    fake.trouble.extend([lambda answer: answer(), once])
    made = ask(fake, lambda client: client.datasets.upload(id, tmp_path))
    assert (made.status, uploaded(fake, id)) == ("Ready", {"a.parquet": b"rows"})


def test_a_file_that_has_changed_is_refused(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id = module(fake, tmp_path)
    fake._entities[id]["status"] = "WaitingForUpload"
    write(tmp_path, {"model.py": b"other"})
    with pytest.raises(TransferFailed, match=r"model\.py: the upload was refused: .*Content-MD5"):
        ask(fake, lambda client: client.modules.upload(id, tmp_path))


def test_what_is_ready_takes_no_more_files(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id = module(fake, tmp_path)
    with pytest.raises(Conflict, match="takes no more files"):
        ask(fake, lambda client: client.modules.upload(id, tmp_path))


def test_with_a_key_a_repeat_finishes_what_was_begun(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    def make(client: Any) -> Any:
        return client.modules.create_from_folder(tmp_path, account="acme", name="m", idempotency_key="mine")

    write(tmp_path, MODULE)
    fake.trouble.extend([lambda answer: answer(), lambda answer: answer(), refused(403, "Forbidden")])
    with pytest.raises(Exception, match="there is trouble"):
        ask(fake, make)
    assert ask(fake, make).status == "Ready"
    assert ask(fake, make).status == "Ready"
    assert len(fake.entities("modules")) == 1


BAD = {
    "no such folder": (lambda folder: folder / "none", "none: there is no such folder"),
    "nothing in it": (lambda folder: folder / "void", "there is no file in it"),
    "no such file": (lambda folder: {"a": folder / "none"}, "none: there is no such file"),
    "a name that is none": (lambda folder: {"../a": folder / "x.py"}, "path '../a'"),
}


@pytest.mark.parametrize(("files", "said"), BAD.values(), ids=BAD)
def test_files_are_checked_before_anything_is_made(
    files: Any, said: str, ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    write(tmp_path, {"x.py": b"x", "void/.hidden": b""})
    with pytest.raises(BadFiles, match=said):
        ask(fake, lambda client: client.modules.create_from_folder(files(tmp_path), account="acme", name="m"))
    assert fake.requests == []


def test_a_file_that_is_missing_is_noticed_before_the_first_is_uploaded(
    ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    id = module(fake, tmp_path)
    fake.objects.clear()
    (tmp_path / "model.py").unlink()
    with pytest.raises(BadFiles, match=r"model\.py: there is no such file, and the entity names it"):
        ask(fake, lambda client: client.modules.upload(id, tmp_path))
    with pytest.raises(BadFiles, match=r"data/table\.csv: the entity names it"):
        ask(fake, lambda client: client.modules.upload(id, {}))
    assert fake.objects == {}


async def test_an_upload_that_is_cancelled_ends_between_two_pieces(
    fake: FakePlatform, tmp_path: Path
) -> None:
    write(tmp_path, {"big": BIG})
    begun, reports = threading.Event(), list[int]()

    def progress(name: str, done: int, total: int) -> None:
        reports.append(done)
        begun.set()
        given_up.wait(60)

    given_up = threading.Event()
    async with fake.async_client() as client:
        task = asyncio.create_task(
            client.modules.create_from_folder(tmp_path, account="acme", name="m", progress=progress)
        )
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        given_up.set()
        await asyncio.sleep(0.05)
    assert reports == [CHUNK]
    assert fake.objects == {}


# ---- downloads


def test_a_download_is_what_was_uploaded(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id, there = module(fake, tmp_path / "up", {**MODULE, "big": BIG}), tmp_path / "down"
    paths = ask(fake, lambda client: client.modules.download(id, there))
    assert {path.relative_to(there).as_posix(): path.read_bytes() for path in paths} == {**MODULE, "big": BIG}
    assert sorted(path for path in there.rglob("*") if path.is_file()) == sorted(paths)


def test_a_download_that_broke_off_is_completed(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id, there = module(fake, tmp_path / "up"), tmp_path / "down"
    write(there, {"model.py": MODULE["model.py"], ".0123.part": b"pri"})
    fake.requests.clear()
    ask(fake, lambda client: client.modules.download(id, there))
    assert (there / "data/table.csv").read_bytes() == MODULE["data/table.csv"]
    assert [request for request in fake.requests if request.url.path.endswith("model.py")] == []


def test_what_is_in_the_way_is_not_overwritten(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id, there = module(fake, tmp_path / "up"), write(tmp_path / "down", {"model.py": b"mine"})
    with pytest.raises(TransferFailed, match=r"model\.py: is there already, with other content"):
        ask(fake, lambda client: client.modules.download(id, there))
    assert (there / "model.py").read_bytes() == b"mine"


class Cut(httpx.SyncByteStream):
    """Breaks off in the middle."""

    def __iter__(self) -> Any:
        yield b"pri"
        raise httpx.ReadError("connection reset")


def cut(_: Any) -> httpx.Response:
    return httpx.Response(200, headers={"content-length": "7"}, stream=Cut())


def short(_: Any) -> httpx.Response:
    return file_response(b"pri", 7)


def expired(_: Any) -> httpx.Response:
    return httpx.Response(403, json={"detail": "expired"})


@pytest.mark.parametrize("trouble", [cut, short, unreachable, refused(503), expired])
def test_a_download_in_trouble_is_done_again(
    trouble: Any, ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    id, there = module(fake, tmp_path / "up", {"model.py": b"print()"}), tmp_path / "down"
    fake.trouble.extend([lambda answer: answer(), trouble])
    ask(fake, lambda client: client.modules.download(id, there))
    assert [path.name for path in there.iterdir()] == ["model.py"]
    assert (there / "model.py").read_bytes() == b"print()"


def test_what_is_not_what_its_digest_says_gets_no_name(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id, there = module(fake, tmp_path / "up", {"model.py": b"print()"}), tmp_path / "down"
    fake.trouble.extend([lambda answer: answer(), lambda _: file_response(b"evil()!")])
    with pytest.raises(TransferFailed, match=r"model\.py: its MD5 is .*, and should be"):
        ask(fake, lambda client: client.modules.download(id, there))
    assert list(there.iterdir()) == []


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "", "."])
def test_a_path_that_leads_out_is_refused_before_anything_is_fetched(
    path: str, ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    id, there = module(fake, tmp_path / "up"), tmp_path / "down"

    def said(answer: Any) -> httpx.Response:
        links = answer().json()
        links[-1]["artifact"]["path"] = path
        return httpx.Response(200, json=links)

    fake.trouble.append(said)
    with pytest.raises(UnexpectedAnswer, match=r"artifact\.path"):
        ask(fake, lambda client: client.modules.download(id, there))
    assert not there.exists()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "", ".", "link/evil"])
def test_no_file_leaves_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(TransferFailed, match="leads out of"):
        find_target(folder, name)
    assert find_target(folder, "a/b") == folder / "a/b"


def test_links_to_folders_are_passed_over(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    id = module(fake, tmp_path / "up")

    def with_folder(answer: Any) -> httpx.Response:
        links = answer().json()
        return httpx.Response(200, json=[{**links[0], "artifact": {"path": "data"}}, *links])

    fake.trouble.append(with_folder)
    assert len(ask(fake, lambda client: client.modules.download(id, tmp_path / "down"))) == len(MODULE)
    one = min(MODULE)
    (file,) = ask(fake, lambda client: client.modules.download(id, tmp_path / "one", paths=[one]))
    assert file == tmp_path / "one" / one


def test_nothing_is_downloaded_of_what_is_not_there(ask: Ask, fake: FakePlatform, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        ask(fake, lambda client: client.modules.download("0" * 32, tmp_path))


def test_evidence_is_downloaded_and_what_is_not_included_is_said(
    ask: Ask, fake: FakePlatform, tmp_path: Path
) -> None:
    id = module(fake, tmp_path / "up")
    evidence = ask(fake, lambda client: client.reports.download_evidence(id, tmp_path / "down"))
    assert {path.relative_to(tmp_path / "down").as_posix() for path in evidence.files} == set(MODULE)
    assert (tmp_path / "down/data/table.csv").read_bytes() == MODULE["data/table.csv"]
    assert evidence.not_included == {"inputs/": "the token lacks datasets/data"}
