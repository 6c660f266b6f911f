"""`steelyard report verify` as a user gives it: what it says, and its exit status."""

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.report.evidence.test_verify import KEY
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

ROWS = [{"prompt": f"say {number}", "target": str(number)} for number in range(6)]


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", "verify", *map(str, arguments)])


async def make_signed(root: Path) -> None:
    write_prompts(root / "prompts.parquet", ROWS)
    private = root / "key.pem"
    private.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (root / "public.pem").write_bytes(public)
    async with endpoint(lambda prompt: prompt.split()[1]) as server:
        request = make_request(root / "prompts.parquet", server.url, rubrics=(RubricSpec("exact-match"),))
        await run(request, root / "run", sign_key=private)


@pytest.fixture(scope="module")
def signed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("signed")
    asyncio.run(make_signed(root))
    return root


@pytest.fixture
def folder(signed_run: Path, tmp_path: Path) -> Path:
    """A run with a signed report; the public key lies next to it."""
    return shutil.copytree(signed_run, tmp_path, dirs_exist_ok=True)


def test_a_run_is_verified_from_its_folder_alone(folder: Path) -> None:
    for name in ("report.html", "report.json", ""):
        done = verify(folder / "run" / name, "--key", folder / "public.pem")
        assert done.exit_code == 0, done.output
        assert " checks passed, 0 failed, 0 left out" in done.output
        assert "exact-match: 6 rows (6 scored, 0 failed, 0 left out) scored again" in done.output
        assert "rows counted again: 6 rows of the dataset, asked once; 6 of 6 are there" in done.output
    unsigned = verify(folder / "run/report.html").output
    assert unsigned.startswith("left out  the signature by the key")


def test_a_fault_is_exit_status_1(folder: Path) -> None:
    path = folder / "run/run.yaml"
    path.write_text(path.read_text() + "\n")
    done = verify(folder / "run/report.html", "--key", folder / "public.pem")
    assert done.exit_code == 1
    assert "FAULT     What was asked: run.yaml has the SHA-256" in done.output


def left_out_lines(output: str) -> list[str]:
    """The lines of what is left out, but for the signature."""
    lines = [line.removeprefix("left out  ") for line in output.splitlines() if line.startswith("left out")]
    return [line for line in lines if "signature" not in line]


GET = "They lie in the folder of the run: name it with --results DIR"
ROWS_OF = "no row can be counted or scored again"
WITHOUT = {
    "outputs": (("outputs",), [f"not here: the outputs (outputs/): {ROWS_OF}. {GET}"]),
    "inputs": (("inputs",), [f"not here: the dataset (inputs/): {ROWS_OF}. {GET}"]),
    "costs": ((".spent",), ["not here: .spent/: what the calls cost is not computed again"]),
    "both": (
        ("inputs", "outputs"),
        [f"not here: the dataset (inputs/) and the outputs (outputs/): {ROWS_OF}. {GET}"],
    ),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_nothing_that_is_here_is_said_to_be_missing(name: str, folder: Path) -> None:
    removed, lines = WITHOUT[name]
    for part in removed:
        shutil.rmtree(folder / "run" / part)
    done = verify(folder / "run", "--key", folder / "public.pem")
    assert done.exit_code == 0, done.output
    assert left_out_lines(done.output) == lines


async def make_judged(root: Path) -> None:
    prompts = write_prompts(root / "p.parquet", ROWS)
    async with endpoint(lambda prompt: "VERDICT: correct" if "grading" in prompt else "7") as server:
        request = make_request(
            prompts,
            server.url,
            judges=(JudgeSpec("grader", name="one"),),
            rubrics=(RubricSpec("judge.Verdict"),),
        )
        await run(request, root / "run")


@pytest.fixture(scope="module")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("judged")
    asyncio.run(make_judged(root))
    return root / "run"


@pytest.fixture
def judged(judged_run: Path, tmp_path: Path) -> Path:
    """A run whose answers one judge has judged."""
    return shutil.copytree(judged_run, tmp_path / "run")


JUDGED_WITHOUT = {
    "outputs": [
        "not here: Answers before judging: 3 files",
        "no verdict is read again, because these are not here: Answers before judging",
    ],
    "judged": [
        f"not here: the outputs (judged/): {ROWS_OF}. {GET}",
        "no verdict is read again, because these are not here: Outputs, Record of the run",
    ],
    "judges": [
        "not here: Answers of the judge one: 6 files",
        "no verdict is read again, because these are not here: Answers of the judge one",
        "not here: .spent/ of the judge one: what the calls cost is not computed again",
    ],
}


@pytest.mark.parametrize("part", JUDGED_WITHOUT)
def test_of_a_judged_run_it_is_said_what_is_missing(part: str, judged: Path) -> None:
    shutil.rmtree(judged / part)
    done = verify(judged)
    assert done.exit_code == 0, done.output
    assert left_out_lines(done.output) == JUDGED_WITHOUT[part]


def test_lost_scores_are_named_by_what_they_lack(folder: Path) -> None:
    (folder / "run/scores.parquet").unlink()
    done = verify(folder / "run/report.html", "--key", folder / "public.pem")
    assert done.exit_code == 1
    assert "FAULT     scores.parquet: is missing: scores made again are compared with none\n" in done.output


def test_what_other_rows_than_those_asked_are_scored_for_is_said(folder: Path) -> None:
    path = folder / "run/inputs/part-00000.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    done = verify(folder / "run/report.html", "--key", folder / "public.pem")
    assert done.exit_code == 1
    assert (
        "left out  scoring again: would prove nothing, because the rows are not those that were asked"
        in done.output
    )


@pytest.mark.parametrize("rubrics", [None, 5, [5]])
def test_a_report_of_another_form_is_a_fault_also_with_a_module(
    folder: Path, rubrics: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the module's folder
    path = folder / "run/report.json"
    numbers = json.loads(path.read_bytes())
    numbers["scoring"]["rubrics"] = rubrics
    path.write_text(json.dumps(numbers))
    done = verify(folder / "run", "--module", folder)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 1
    assert "FAULT" in done.output


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("1 / 0\n", r"ZeroDivisionError: division by zero \(broken\.py, line 1\)"),
        (
            "import nothing_of_this\n",
            r"ModuleNotFoundError: No module named 'nothing_of_this' \(.*, line 1\)",
        ),
        ("import os\n\n\ndef f(:\n", r"SyntaxError: invalid syntax \(broken\.py, line 4\).*"),
        ("raise SystemExit(0)\n", r"SystemExit: 0 \(broken\.py, line 1\)"),
        ("raise ValueError('one\\ntwo')\n", r"ValueError: one \(broken\.py, line 1\)"),
    ],
    ids=["raises", "imports-nothing", "no-python", "exits", "two-lines"],
)
def test_a_module_that_cannot_be_imported_is_a_usage_fault(
    folder: Path, code: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the module's folder
    (folder / "module").mkdir()
    (folder / "module/broken.py").write_text(code)
    path = folder / "run/report.json"
    numbers = json.loads(path.read_bytes())
    numbers["scoring"]["rubrics"] = ["broken.Rubric?a=1"]
    path.write_text(json.dumps(numbers))
    error = verify(folder / "run", "--module", folder / "module").exception
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    assert re.fullmatch(
        rf"--module {re.escape(str(folder / 'module'))}: importing broken failed: {line}", str(error)
    )


RUBRIC = """
from dataclasses import dataclass
from steelyard_evaluation.report.rubrics.text import ExactMatch

@dataclass(frozen=True)
class Rubric(ExactMatch):
    def {method}(self, *_):
        {code}
"""


@pytest.mark.parametrize("kept", ["whole", "without-outputs"])
@pytest.mark.parametrize(
    ("method", "code", "line"),
    [
        ("score", "{}['x']", "in score (row 0): KeyError: 'x' (flawed.py, line 8)"),
        ("score", "raise SystemExit(0)", "in score (row 0): SystemExit: 0 (flawed.py, line 8)"),
        ("score", "return 5", "in score (row 0): AttributeError: 'int' object has no attribute 'get'"),
        (
            "score",
            "return {'score': 1.0, 'prediction': 5}",
            "in score: ArrowTypeError: Expected bytes, got a 'int'",
        ),
        (
            "summarise",
            "raise RuntimeError('one\\ntwo')",
            "in summarise: RuntimeError: one (flawed.py, line 8)",
        ),
        ("summarise", "return 5", "in summarise: TypeError: it returned int instead of Results"),
        ("__post_init__", "open('/nothing/here')", "when it is made: FileNotFoundError: [Errno 2]"),
    ],
    ids=["raises", "exits", "no-row", "no-text", "two-lines", "no-results", "cannot-be-made"],
)
def test_a_rubric_that_raises_anything_is_one_fault(
    folder: Path, kept: str, method: str, code: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the module's folder
    monkeypatch.delitem(sys.modules, "flawed", raising=False)
    (folder / "module").mkdir()
    (folder / "module/flawed.py").write_text(RUBRIC.format(method=method, code=code))
    path = folder / "run/report.json"
    numbers = json.loads(path.read_bytes())
    numbers["scoring"]["rubrics"] = ["flawed.Rubric"]
    path.write_text(json.dumps(numbers))
    if kept == "without-outputs":
        shutil.rmtree(folder / "run/outputs")
    done = verify(folder / "run", "--module", folder / "module")
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 1
    if kept == "without-outputs" and method == "score":
        return  # nothing is scored again
    (said,) = [said for said in done.output.splitlines() if "flawed.Rubric fails" in said]
    assert f"rubric flawed.Rubric fails {line}" in said
    assert said.endswith(
        ". Correct its code there, or give the code that made the report with --module FOLDER"
    )


@pytest.mark.parametrize("name", ["planted.Rubric", "planted.code.Rubric", "pathlib.Rubric", ".Rubric"])
def test_a_report_imports_no_code_but_that_of_the_modules(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report may come from others, who name what they like; a folder without code hides no package."""
    package = folder / "elsewhere/planted"
    package.mkdir(parents=True)
    for file in ("__init__.py", "code.py"):
        (package / file).write_text(f"open({str(folder / 'imported')!r}, 'w')\n")
    (folder / "module/planted").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "elsewhere")])
    path = folder / "run/report.json"
    numbers = json.loads(path.read_bytes())
    numbers["scoring"]["rubrics"] = [name]
    path.write_text(json.dumps(numbers))
    error = verify(folder / "run", "--module", folder / "module").exception
    assert isinstance(error, UsageError)
    assert str(error).endswith(f"rubric {name!r}: there is no module {name.partition('.')[0]!r} in it")
    assert not (folder / "imported").exists()


def test_results_may_lie_elsewhere(folder: Path) -> None:
    (folder / "page").mkdir()
    for name in ("report.html", "report.json", "scores.parquet", "attestation.json", "run.yaml"):
        (folder / "run" / name).rename(folder / "page" / name)
    assert verify(folder / "page/report.html", "--results", folder / "run").exit_code == 0
    done = verify(folder / "page/report.html", "--key", folder / "public.pem")
    assert done.exit_code == 0, done.output
    first, *_ = done.output.splitlines()
    assert first.startswith("left out  not here: the dataset (inputs/) and the outputs (outputs/)")
    assert "exact-match: headline and figures computed again from scores.parquet are the same" in done.output


def test_a_page_alone_is_checked_as_far_as_it_goes(folder: Path) -> None:
    page = folder / "alone/some page.html"
    page.parent.mkdir()
    page.write_bytes((folder / "run/report.html").read_bytes())
    done = verify(page)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("left out  this page is alone")
    assert "They lie in the folder of the run: name it with --results DIR" in done.output
    text = page.read_text()
    policy = text.partition("Content-Security-Policy")[2].partition(">")[0]
    for old, new in (
        ("<h1>", "<h1>Not "),
        ("</body>", "<script>alert(1)</script></body>"),
        # A policy with a directive more, which lets handlers run; and one that a comment holds, where it binds nothing.
        ("default-src 'none'; ", "default-src 'none'; script-src-attr 'unsafe-inline'; "),
        ("<html", f'<!--<meta http-equiv="Content-Security-Policy{policy}>--><html'),
    ):
        assert old in text
        page.write_text(text.replace(old, new, 1))
        assert verify(page).exit_code == 1, old


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("run/run.yaml",), r"should be a report\.html or a report\.json"),
        (("no/report.html",), "there is no such file"),
        (("run/report.html", "--key", "key.pem"), r"--key .*key\.pem: is not a key in PEM"),
        (("run/report.html", "--results", "."), "has no folder inputs/"),
    ],
)
def test_a_usage_fault_is_exit_status_2(folder: Path, arguments: tuple[str, ...], fault: str) -> None:
    done = verify(*(argument if argument.startswith("--") else folder / argument for argument in arguments))
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2
    with pytest.raises(UsageError, match=fault):
        raise done.exception
