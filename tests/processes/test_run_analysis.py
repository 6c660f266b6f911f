"""Tests of the step, with methods that run in processes of their own."""

import asyncio
import io
import json
import venv
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from steelyard.steps.common import Log, StepFailed
from steelyard.steps.example import make_config
from steelyard.steps.run_analysis import main
from steelyard_evaluation.analysis.example import (
    INPUT,
    make_analysis,
    make_method,
    make_notebook,
    write_inputs,
)
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.storage.files import FileStore

LENGTHS = """
import pyarrow as pa

def lengths(arguments, texts):
    for batch in texts.to_batches():
        rows = [
            {"_index_": row["_index_"], "length": len(row["text"]) * int(arguments["factor"])}
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(rows)
"""


class Run:
    """A run of the step on local folders."""

    def __init__(self, root: Path, code: str = LENGTHS, path: str = "lengths.py") -> None:
        self.root, self.output = root, root / "output"
        self.inputs = write_inputs(root, {path: code})
        self.printed = io.StringIO()

    async def __call__(self, attempt: int = 1, **changes: Any) -> None:
        spec = {
            **make_analysis(**changes),
            "storage": {"inputs": self.inputs, "output": f"file://{self.output}"},
        }
        config = make_config("run_analysis", "Analysis", spec)
        config = config.model_copy(update={"attempt": attempt, "epoch": f"1795241700-11111111-{attempt:04d}"})
        await main(config, Log("t", self.printed))

    async def fails(self, attempt: int = 1, **changes: Any) -> StepFailed:
        """Run, and return the failure; nothing is published."""
        with pytest.raises(StepFailed) as failure:
            await self(attempt, **changes)
        assert self.published() == []
        return failure.value

    def published(self) -> list[str]:
        """Paths of all files but those of the attempts and of their progress."""
        paths = [str(file.relative_to(self.output)) for file in self.output.rglob("*") if file.is_file()]
        return sorted(
            path for path in paths if not path.startswith((".steelyard/epoch", ".steelyard/progress"))
        )

    def lines(self) -> list[str]:
        return [json.loads(line)["message"] for line in self.printed.getvalue().splitlines()]


async def test_a_function_makes_a_measurement(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await run()
    assert run.published() == [".steelyard/manifest.json", "part-0.parquet"]
    rows = pq.read_table(run.output / "part-0.parquet").to_pylist()
    assert rows == [{"_index_": index, "length": 2 * (index + 1)} for index in range(3)]
    manifest = json.loads((run.output / ".steelyard/manifest.json").read_bytes())
    assert (manifest["rows"], [file["path"] for file in manifest["files"]]) == (3, ["part-0.parquet"])


async def test_scores_are_published_as_the_api_reads_them(tmp_path: Path) -> None:
    scoring = """
from steelyard_evaluation.analysis import AnalysisContext

def lengths(arguments, texts):
    context = AnalysisContext()
    context.score("accuracy", 0.925, "Most answers are right.")
    context.curve("recall", {"threshold": [0.1, 0.9], "recall": [1, 0.5]})
    print(context.folder("texts").name, context.argument("factor"), context.argument("other", "none"))
    return texts.to_table(columns=["_index_"]).append_column("length", [[7, 8, 9]])
"""
    run = Run(tmp_path, scoring)
    await run()
    (score,) = json.loads((run.output / ".dyff/scores.json").read_bytes())["scores"]
    assert (score["name"], score["quantity"], score["quantityString"]) == ("accuracy", 0.925, "0.93")
    assert score["metadata"] == {"refs": {"method": "b" * 32, "evaluation": "e" * 32}}
    (curve,) = json.loads((run.output / ".dyff/curves.json").read_bytes())["curves"]
    assert curve["points"] == {"threshold": [0.1, 0.9], "recall": [1.0, 0.5]}
    assert f"{INPUT} 2 none" in run.lines()


async def test_the_log_warns_of_what_the_method_does_not_declare(tmp_path: Path) -> None:
    code = LENGTHS.replace(
        "    for batch",
        "    AnalysisContext().score('accuracy', int(arguments['other']), 'Much.')\n    for batch",
    )
    run = Run(tmp_path, f"from steelyard_evaluation.analysis import AnalysisContext\n{code}")
    arguments = [{"keyword": keyword, "value": "2"} for keyword in ("factor", "other")]
    await run(arguments=arguments)
    assert [line for line in run.lines() if line.startswith("warning: ")] == [
        "warning: arguments: 'factor' is not a parameter of the method",
        "warning: arguments: 'other' is not a parameter of the method",
        "warning: score accuracy: 2.0 is more than 1.0, the maximum of accuracy",
    ]


async def test_a_method_runs_in_another_environment_that_has_this_one_behind_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    packages = next((tmp_path / "env").glob("lib/python3*/site-packages"))
    (packages / "only_there.py").write_text("factor = 3\n")
    (packages / "psutil.py").write_text("theirs = True\n")
    monkeypatch.setenv("STEELYARD_ANALYSIS_PYTHON", str(tmp_path / "env/bin/python"))
    code = "import only_there, psutil\nassert psutil.theirs\n" + LENGTHS.replace(
        'int(arguments["factor"])', "only_there.factor"
    )
    run = Run(tmp_path, code)
    await run()
    assert pq.read_table(run.output / "part-0.parquet")["length"].to_pylist() == [3, 6, 9]


async def test_a_rubric_of_the_original_kind_scores_predictions(tmp_path: Path) -> None:
    rubric = """
import pyarrow as pa

class Length:
    name, schema = "rubrics.Length", None

    def apply(self, task_data, predictions):
        assert task_data.count_rows() == 3
        yield pa.RecordBatch.from_pylist([{"_index_": 0, "length": predictions.count_rows()}])
"""
    inputs = [{"keyword": keyword, "entity": INPUT} for keyword in ("task_data", "predictions")]
    run = Run(tmp_path, rubric, "rubrics.py")
    await run(method=make_method("PythonRubric", "rubrics.Length"), inputs=inputs, arguments=[])
    assert pq.read_table(run.output / "part-0.parquet").to_pylist() == [{"_index_": 0, "length": 3}]


@pytest.mark.parametrize(
    ("code", "name", "code_of_failure", "message"),
    [
        (
            "def lengths(arguments, texts): return 1 / 0",
            "lengths.lengths",
            "MethodFailed",
            "ZeroDivisionError: div",
        ),
        (
            "def lengths(arguments, texts): raise ValueError('the name \\udc80')",
            "lengths.lengths",
            "MethodFailed",
            "ValueError: the name ?",
        ),
        (
            "def lengths(arguments, texts): return arguments['pace']",
            "lengths.lengths",
            "MethodFailed",
            "there is no argument 'pace'; given: ",
        ),
        (
            "def lengths(arguments, texts): raise MemoryError",
            "lengths.lengths",
            "MethodFailed",
            "MemoryError",
        ),
        (
            "import os\ndef lengths(arguments, texts): os._exit(0)",
            "lengths.lengths",
            "MethodFailed",
            "exit status 0",
        ),
        (
            "import os, signal\ndef lengths(arguments, texts): os.kill(os.getpid(), signal.SIGSEGV)",
            "lengths.lengths",
            "MethodFailed",
            "SIGSEGV",
        ),
        ("", "lengths.lengths", "MethodMissing", "the module 'lengths' has no 'lengths'"),
        ("", "length.lengths", "MethodMissing", "no module 'length'"),
        (
            "from dyff.missing import it",
            "lengths.lengths",
            "MethodFailed",
            "install it with: steelyard runners install dyff-audit",
        ),
        ("def lengths(arguments, texts): return [1]", "lengths.lengths", "OutputInvalid", "yields int"),
        (
            "def lengths(arguments, texts): return texts.to_table()",
            "lengths.lengths",
            "OutputInvalid",
            "missing: length",
        ),
    ],
)
async def test_what_a_method_does_wrong_is_its_reason(
    tmp_path: Path, code: str, name: str, code_of_failure: str, message: str
) -> None:
    failure = await Run(tmp_path, code).fails(method=make_method(name=name))
    assert (failure.code, failure.permanent) == (code_of_failure, code_of_failure != "MethodFailed")
    assert message in failure.message


async def test_a_method_that_fails_twice_has_failed(tmp_path: Path) -> None:
    failure = await Run(tmp_path, "def lengths(arguments, texts): raise ValueError('no')").fails(attempt=2)
    assert (failure.code, failure.message, failure.permanent) == (
        "MethodFailed",
        "ValueError: no (lengths.py, line 1)",
        True,
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def lengths(arguments, texts):\n    return int('x')", "'x' (deep/lengths.py, line 2)"),
        (
            "import json\ndef lengths(arguments, texts):\n\n    json.loads('x')",
            "(char 0) (deep/lengths.py, line 4)",
        ),
        ("def lengths(arguments, texts):\n    yield 1 / 0", "by zero (deep/lengths.py, line 2)"),
        ("from deep.other import lengths", "(deep/other.py, line 3)"),
        ("1 / 0", "by zero (deep/lengths.py, line 1)"),
        ("\ndef lengths(:", "(deep/lengths.py, line 2)"),
        ("def lengths(arguments, texts):\n    raise ValueError('é' * 9000)", "é (deep/lengths.py, line 2)"),
        ("def lengths(arguments, texts):\n    raise SyntaxError('no')", "(deep/lengths.py, line 2)"),
    ],
    ids=["own", "of a library", "in rows", "elsewhere", "import", "syntax", "many words", "no file"],
)
async def test_a_method_that_fails_says_where_in_its_modules(tmp_path: Path, code: str, message: str) -> None:
    run = Run(tmp_path, code, "deep/lengths.py")
    other = "def lengths(arguments, texts):\n    # a line\n    raise KeyError('k')\n"
    (tmp_path / "module/deep/other.py").write_text(other)
    failure = await run.fails(method=make_method(name="deep.lengths.lengths"))
    assert failure.code == "MethodFailed"
    assert failure.message.endswith(message)


LEAVES = """
import os
import pyarrow.parquet as pq
from steelyard_evaluation.analysis import AnalysisContext

def lengths(arguments, texts):
    output = AnalysisContext().output
    {}
    return texts.to_table(columns=["_index_"]).append_column("length", [[7, 8, 9]])
"""


async def test_an_output_that_cannot_be_published_is_refused(tmp_path: Path) -> None:
    failure = await Run(tmp_path, LEAVES.format("os.symlink('/etc/passwd', output / 'link')")).fails()
    assert (failure.code, failure.permanent) == ("OutputInvalid", True)
    assert "link is a symbolic link to /etc/passwd" in failure.message


async def test_a_method_sees_no_secret_and_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("STEELYARD_API_TOKEN", "t0ken")
    run = Run(tmp_path, LEAVES.format("print(dict(os.environ))"))
    await run()
    assert "DYFF_AUDIT_LOCAL_STORAGE_ROOT" in run.printed.getvalue()
    assert "s3cret" not in run.printed.getvalue()
    assert "t0ken" not in run.printed.getvalue()


async def test_an_attempt_that_is_ended_takes_all_its_processes_with_it(tmp_path: Path) -> None:
    # A kernel of Jupyter leaves its parent's session in the same way.
    pids = tmp_path / "pids"
    code = f"""
import os, subprocess, sys, time

def lengths(arguments, texts):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    with open({str(pids)!r} + ".new", "w") as file:
        file.write(f"{{os.getpid()}} {{child.pid}}")
    os.rename({str(pids)!r} + ".new", {str(pids)!r})
    time.sleep(3600)
"""
    running = asyncio.create_task(Run(tmp_path, code)())
    while not pids.exists():
        assert not running.done()
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for pid in pids.read_text().split():
        assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_an_output_is_published_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await run()
    before = (run.output / ".steelyard/manifest.json").read_bytes()
    (tmp_path / "module/lengths.py").write_text("def lengths(arguments, texts): raise ValueError('again')")
    await run(attempt=2)
    assert (run.output / ".steelyard/manifest.json").read_bytes() == before


async def test_the_next_attempt_replaces_what_a_killed_one_left(tmp_path: Path) -> None:
    run = Run(tmp_path)
    attempt = ".steelyard/attempts/1795241700-11111111-0001"
    for path in (
        f"{attempt}/part-7.parquet",
        f"{attempt}/.dyff/scores.json",
        ".dyff/logs/pod/000000",
        f"{attempt}/part-0.parquet",
    ):
        (run.output / path).parent.mkdir(parents=True, exist_ok=True)
        (run.output / path).write_text("of a killed attempt")
    await run(attempt=2)
    assert run.published() == [".dyff/logs/pod/000000", ".steelyard/manifest.json", "part-0.parquet"]
    assert pq.read_table(run.output / "part-0.parquet").num_rows == 3


async def test_a_superseded_attempt_publishes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await claim(FileStore(run.output), "1795241700-11111111-0002")
    failure = await run.fails(attempt=1)
    assert (failure.code, failure.permanent) == ("Fenced", False)


async def test_a_cell_that_fails_is_the_reason(tmp_path: Path) -> None:
    run = Run(tmp_path, make_notebook("print('before')", "raise ValueError('in a cell')"), "pages/case.ipynb")
    failure = await run.fails(method=make_method("JupyterNotebook", "pages/case.ipynb"))
    assert (failure.code, failure.message) == (
        "MethodFailed",
        "ValueError: in a cell (pages/case.ipynb, cell 2, line 1)",
    )
    assert "before" in run.lines()


async def test_a_notebook_that_is_not_in_its_module_is_missing(tmp_path: Path) -> None:
    (tmp_path / "case.ipynb").write_text(make_notebook())
    failure = await Run(tmp_path, "").fails(method=make_method("JupyterNotebook", "../case.ipynb"))
    assert failure.code == "MethodMissing"
