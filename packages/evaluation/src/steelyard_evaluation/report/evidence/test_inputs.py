"""Files that rubrics read are copied under their own names, also where two share one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard_evaluation.report.evidence.inputs import copy_rubric_files, further_files
from steelyard_evaluation.storage.files import FileStore


@dataclass(frozen=True)
class Reader:
    files: tuple[str, ...]


def copies(folder: Path, *paths: Path, where: dict[str, str] | None = None) -> dict[str, str]:
    readers: list[Any] = [Reader(tuple(map(str, paths)))]
    folder.mkdir()
    made = copy_rubric_files(readers, where or {}, folder)
    return {name: f"{path.name}: {path.read_text()}" for name, path in made.items()}


def test_files_of_one_name_are_distinguished(tmp_path: Path) -> None:
    paths = [tmp_path / name / "schema.json" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    first, second = map(str, paths)
    assert copies(tmp_path / "made", *paths, paths[0]) == {
        first: "schema.json: a", second: "2-schema.json: b"
    }  # fmt: skip


def test_a_copy_keeps_the_name_that_was_given_for_its_file(tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_text("{}")
    where = {"/elsewhere/schema.json": str(tmp_path / "copy.json")}
    made = copies(tmp_path / "made", tmp_path / "copy.json", where=where)
    assert made == {"/elsewhere/schema.json": "schema.json: {}"}


async def test_further_files_are_digested_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    ((what, entry),) = await further_files({"Answers of a judge": ("a",)}, FileStore(tmp_path))
    assert (what, entry.path, entry.size) == ("Answers of a judge", "a", 1)
    assert entry.sha256.startswith("ca978112ca1b")
