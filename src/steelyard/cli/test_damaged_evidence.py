"""Any file of a run that cannot be parsed is a fault of the evidence, and none of the command that verifies it."""

import asyncio
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_common.whole_files import DOCUMENT_BYTES
from steelyard_evaluation.engine import layout
from steelyard_evaluation.report.evidence.files import WORKING
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no text": lambda _: b"\x00\xff: [{",
    "nothing": lambda _: b"",
    "a half": lambda content: content[: len(content) // 2],
    "a list": lambda _: b"[1, 2]",
    "more behind its end": lambda content: content + b"\n}}: more: [",
    "a nesting without end": lambda _: b"[" * 5000,
}
OF_TEXT = {"a list", "more behind its end", "a nesting without end"}
"""Damages that differ from `no text` only to a reader of text."""


async def make_runs(root: Path) -> None:
    """Make a judged run and another one with the same prompts, and the page that compares them."""
    prompts = write_prompts(root / "prompts.parquet", 6)
    async with endpoint(lambda prompt: "VERDICT: correct" if "grading" in prompt else echo(prompt)) as server:
        spec = JudgeSpec("grader", name="one")
        rubrics = (RubricSpec("exact-match"), RubricSpec("verdict"))
        request = make_request(prompts, server.url, rubrics=rubrics, judges=(spec,))
        await run(request, root / "judged")
        request = make_request(prompts, server.url, rubrics=rubrics[:1])
        await run(request, root / "plain")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    asyncio.run(make_runs(root))
    invoke("eval", "compare", root / "plain", root / "judged", "--output", root / "compared.html")
    return root


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def files_of(folder: Path) -> list[Path]:
    """Return the files of a run from which something is verified."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(f"/{name}" in path.as_posix() for name in (*WORKING, layout.JOURNAL))
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_parsed_is_a_fault(runs: Path, tmp_path: Path, damage: str) -> None:
    assert invoke("report", "verify", runs / "judged").exit_code == 0
    others = []
    for path in files_of(runs / "judged"):
        if damage in OF_TEXT and path.suffix == ".parquet":
            continue
        inside = path.relative_to(runs / "judged")
        copy = Path(shutil.copytree(runs / "judged", tmp_path / "judged"))
        (copy / inside).write_bytes(DAMAGES[damage](path.read_bytes()))
        done = invoke("report", "verify", copy)
        # A log of no call is what an attempt leaves that ended before its first call.
        fine = done.exit_code == 1 and "FAULT" in done.output and isinstance(done.exception, SystemExit)
        if not fine and not (inside.parent.name == ".spent" and damage == "nothing"):
            others.append(f"{inside}: {done.exit_code}, {done.exception!r}, {done.output[-200:]}")
        shutil.rmtree(copy)
    assert not others, "\n".join(others)


def test_a_file_of_any_size_is_not_read_into_memory(runs: Path, tmp_path: Path) -> None:
    others = []
    for path in files_of(runs / "judged"):
        inside = path.relative_to(runs / "judged")
        copy = Path(shutil.copytree(runs / "judged", tmp_path / "judged"))
        os.truncate(copy / inside, DOCUMENT_BYTES + 1)
        tracemalloc.start()
        done = invoke("report", "verify", copy)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if not isinstance(done.exception, SystemExit | UsageError) or most > 40 << 20:
            others.append(f"{inside}: {done.exit_code}, {done.exception!r}, {done.output[-200:]}, {most}")
        shutil.rmtree(copy)
    assert not others, "\n".join(others)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_a_compared_run_that_cannot_be_parsed_is_a_fault(
    runs: Path, tmp_path: Path, damage: str
) -> None:
    assert invoke("report", "verify", runs / "compared.html").exit_code == 0
    others = []
    for path in files_of(runs / "plain"):
        inside = path.relative_to(runs / "plain")
        copy = Path(shutil.copytree(runs, tmp_path / "runs"))
        (copy / "plain" / inside).write_bytes(DAMAGES[damage](path.read_bytes()))
        done = invoke("report", "verify", copy / "compared.html")
        # The page is made of some of the files of its runs; the others may change.
        if done.exit_code not in {0, 1} or not (
            done.exit_code == 0 or isinstance(done.exception, SystemExit)
        ):
            others.append(f"{inside}: {done.exit_code}, {done.exception!r}, {done.output[-200:]}")
        shutil.rmtree(copy)
    assert not others, "\n".join(others)
