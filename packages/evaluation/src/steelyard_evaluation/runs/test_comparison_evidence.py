"""A saved page of a comparison: right as it was made, and each change of it or of its runs is a fault."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from steelyard_evaluation.report.evidence.files import Check
from steelyard_evaluation.runs import comparison_evidence
from steelyard_evaluation.runs.compare import compare_runs, page
from steelyard_evaluation.runs.comparison_evidence import verify_comparison
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

ROWS = [{"prompt": f"say {number}", "target": str(number), "topic": number % 4} for number in range(12)]
WRONG = {"a": (1, 2, 3), "b": (3,), "c": ()}


async def make_runs(folder: Path) -> None:
    write_prompts(folder / "p.parquet", ROWS)
    for name, wrong in WRONG.items():
        async with endpoint(partial(_answer, wrong)) as server:
            request = make_request(
                folder / "p.parquet",
                server.url,
                rubrics=(RubricSpec("exact-match"),),
                cluster_by="topic" if name == "a" else None,
            )
            await run(request, folder / "runs" / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs; each test changes a copy of them."""
    folder = tmp_path_factory.mktemp("made")
    asyncio.run(make_runs(folder))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Three runs, the page of their comparison beside them."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def _answer(wrong: tuple[int, ...], prompt: str) -> str:
    number = int(prompt.split()[1])
    return "no" if number in wrong else str(number)


def saved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cluster_by: str | None = None, *, absolute: bool = False
) -> Path:
    """Save the page as `eval compare` does that is called in `folder`."""
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        base = folder if absolute else Path()
        paths = [base / "runs" / name for name in WRONG]
        (folder / "c.html").write_bytes(page(compare_runs(paths, None, cluster_by), paths[0]))
    return folder / "c.html"


def lines(checks: list[Check], state: str) -> list[str]:
    return [check.what for check in checks if check.state == state]


@pytest.mark.parametrize("cluster_by", [None, "topic", "target"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_page_that_was_not_changed_is_right(
    cluster_by: str | None, absolute: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(folder, monkeypatch, cluster_by, absolute=absolute)
    checks = [*verify_comparison(path, folder / "runs" if absolute else folder)]
    assert lines(checks, "fault") == []
    assert lines(checks, "unchecked") == [
        "a comparison has no signature: a change of the page and of all its runs together is not noticed",
        "the scores are not made again: that is a check of each run's own report.html",
    ]
    assert "c.html: drawn again, is the same byte for byte" in lines(checks, "fine")
    assert sum("SHA-256" in line for line in lines(checks, "fine")) == 9


def change_page(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "c.html").read_text()
        assert old in text
        (folder / "c.html").write_text(text.replace(old, new, 1))

    return change


def flip(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(bytes(data))

    return change


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a number that is shown": (change_page("<h1>Of 2 runs", "<h1>Of 3 runs"), "does not show the headline"),
    "a number of the title": (
        change_page("<title>Of 2 runs", "<title>Of 3 runs"),
        "does not show the headline",
    ),
    "a number inside": (change_page('"questions":12', '"questions":13'), "holds other numbers"),
    "a word of the page": (
        change_page("does not say why", "says why"),
        "is not the page that these runs give",
    ),
    "the name of a model": (change_page('"model":"m"', '"model":"n"'), "holds other numbers"),
    "a script": (change_page("</body>", "<script>1</script></body>"), "script"),
    "scores of a run": (flip("runs/b/scores.parquet"), "B: Scores: scores.parquet has the SHA-256"),
    "a run's dataset": (
        flip("runs/c/inputs/part-00000.parquet"),
        "C: Dataset: inputs/part-00000.parquet has",
    ),
    "a run's manifest": (flip("runs/a/outputs/.steelyard/manifest.json"), "A: Manifest: outputs/"),
    "a path that leads out": (change_page('"path":"scores.parquet"', '"path":"/etc/passwd"'), "leads out"),
    "the numbers removed": (change_page('id="comparison_runs"', 'id="comparison"'), "has no numbers"),
    "another form": (change_page('"letter":"A"', '"letter":1'), "has no numbers"),
    "a rubric of another form": (change_page('"rubric":"', '"rubric":5,"was":"'), "has no numbers"),
    "a column of another form": (change_page('"clusterBy":"topic"', '"clusterBy":5'), "has no numbers"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_a_fault(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(folder, monkeypatch)
    change, expected = CHANGES[name]
    change(folder)
    faults = lines([*verify_comparison(path, folder)], "fault")
    assert any(expected in line for line in faults), faults


def test_runs_that_the_page_names_with_a_folder_are_looked_for_by_their_last_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [*verify_comparison(saved(folder, monkeypatch), folder / "runs")]
    assert lines(checks, "fault") == []
    assert "c.html: drawn again, is the same byte for byte" in lines(checks, "fine")


@pytest.mark.parametrize("name", ["..", "runs/..", "/", "/etc/.."])
def test_a_name_whose_last_part_leads_out_is_looked_for_nowhere(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(folder, monkeypatch)
    change_page('"name":"runs/b"', f'"name":"{name}"')(folder)
    left = "\n".join(lines([*verify_comparison(path, folder / "runs" / "b" / "outputs")], "unchecked"))
    assert f"not here: B: {name}: ends with no name of a folder" in left


def test_a_file_that_is_named_often_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(folder, monkeypatch)
    read: list[Path] = []

    def file_sha256(file: Path) -> str:
        read.append(file)
        return "0" * 64

    monkeypatch.setattr(comparison_evidence, "file_sha256", file_sha256)
    entry = '{"what":"x","path":"scores.parquet","sha256":""},'
    change_page('"evidence":[', f'"evidence":[{entry * 1000}')(folder)
    faults = lines([*verify_comparison(path, folder)], "fault")
    assert sum("A: x: scores.parquet has the SHA-256" in line for line in faults) == 1000
    assert len(read) == 9


def test_a_page_without_its_runs_is_checked_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(folder, monkeypatch)
    shutil.rmtree(folder / "runs/b")
    checks = [*verify_comparison(path, folder)]
    assert lines(checks, "fault") == []
    left = "\n".join(lines(checks, "unchecked"))
    assert "not here: B: runs/b" in left
    assert "comparing again: is not possible, because not all runs are here" in left
    assert sum("SHA-256" in line for line in lines(checks, "fine")) == 6
