"""The commands as a user gives them: flags become the request, faults are one line, every display says how it ended."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from steelyard.cli.eval.display import Lines, Plain, line
from steelyard.cli.eval.request import Flags, request_from_flags
from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.request import Limits
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.spending.prices import PriceSpec

SNAPSHOT = {
    "total": 10_000,
    "done": 1_234,
    "rowErrors": 1,
    "retries": 2,
    "refused": 0,
    "inFlight": 60,
    "admitted": 64,
    "ratePerSecond": 120.5,
    "secondsLeft": 72.7,
    "tokens": {"prompt": 1000, "completion": 20},
    "spend": 0.5,
    "slowest": {"index": 7, "seconds": 12.0},
}


def request_from(**given: Any) -> Any:
    return request_from_flags(Flags({"url": ["http://a/v1"], "model": "m", "prompts": "p.parquet", **given}))[
        0
    ]


def test_flags_become_the_request(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {prompt: 1, completion: 2}")
    template = tmp_path / "t.j2"
    template.write_text("{{ q }}")
    request = request_from(
        template=template,
        system="@" + str(template),
        temperature=0.0,
        stop=["\n"],
        param=["top_k=4"],
        concurrency="auto",
        max_time="2m",
        max_cost=3.0,
        prices=prices,
        bad_rows="abort",
        rubric=["exact-match", "contains"],
        map=["q=question"],
        limit=5,
    )
    assert (request.prompt.template, request.prompt.template_name) == ("{{ q }}", str(template))
    assert request.prompt.system == "{{ q }}"
    assert request.prompt.sampling == {"temperature": 0.0, "stop": ["\n"], "top_k": 4}
    assert request.limits == Limits(max_time=120, max_cost=3, prices=PriceSpec(1, 2))
    assert request.policy == "Abort"
    assert [rubric.reference for rubric in request.rubrics] == ["exact-match", "contains"]
    assert (request.source.columns, request.source.limit) == ({"q": "question"}, 5)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"model": None}, "--model: is missing"),
        ({"url": []}, "--url: is missing"),
        ({"max_cost": float("nan")}, "--max-cost nan: should be a number"),
        ({"max_cost": float("inf")}, "--max-cost inf: should be a number"),
        ({"api": "chats"}, "--api chats: should be chat or completions"),
        ({"format": "xlsx"}, "--format xlsx"),
        ({"bad_rows": "ignore"}, "--bad-rows ignore"),
        ({"prompt": "x", "template": Path("t")}, "--prompt and --template"),
        ({"template": Path("/nope")}, "--template /nope: no such file"),
        ({"prompts": "nope.yaml"}, "nope.yaml: no such file"),
        ({"prompts": None}, "PROMPTS: is missing"),
    ],
)
def test_a_fault_names_its_flag(given: dict[str, Any], fault: str) -> None:
    flags = {"url": ["http://a/v1"], "model": "m", "prompts": "p.parquet", **given}
    with pytest.raises(UsageError, match=fault):
        request_from_flags(Flags({key: value for key, value in flags.items() if value not in (None, [])}))


def test_few_shot_rows_have_to_be_there(tmp_path: Path) -> None:
    empty = tmp_path / "shots.jsonl"
    empty.touch()
    with pytest.raises(UsageError, match=r"--few-shot .*shots\.jsonl: has no rows to show"):
        request_from(few_shot=empty)


def test_a_line_shows_what_there_is_to_show() -> None:
    assert line(SNAPSHOT) == (
        "1,234 of 10,000, 120.5/s, 60 in flight of 64, 1 row error, 2 retries, 1,020 tokens, 0.5 spent, "
        "73 s left, row 7 takes 12 s so far"
    )


def test_a_plain_display_reports_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    plain = Plain(out, lambda: now[0])
    plain.begins(RunFolder(Path("run")), 10_000, 0)
    for _ in range(11):
        plain.progress(SNAPSHOT)
        now[0] += 1.0
    assert out.getvalue().count("1,234 of 10,000") == 2


def test_a_json_display_is_one_object_a_line() -> None:
    out = io.StringIO()
    lines = Lines(out)
    lines.begins(RunFolder(Path("run")), 2, 1)
    lines.progress(SNAPSHOT)
    lines.ends({"exit": 0}, "words")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["begins", "progress", "ends"]
    assert events[1]["done"] == 1234


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["eval", *arguments])


async def test_a_run_can_be_shown_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint(lambda prompt: None if prompt == "say 0" else 'yes, "1"\n') as there:
        await run(make_request(prompts, there.url, replications=2), tmp_path / "run")
    folder = str(tmp_path / "run")
    assert "6 of 6" in invoke("show", folder).output
    shown = invoke("show", folder, "--row", "1").output
    assert "prompt: say 1" in shown
    assert "answer, replication 1" in shown
    for name in ("rows.jsonl", "rows.csv", "rows.parquet"):
        assert "6 rows" in invoke("export", folder, "--output", str(tmp_path / name)).output
    first = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    assert first["row"]["prompt"] == f"say {first['index']}"
    assert (
        (tmp_path / "rows.csv")
        .read_text()
        .startswith("index,replication,row.prompt,row.target,response.text")
    )
    for arguments in (
        ("show", folder, "--row", "9"),
        ("export", folder, "--output", "rows.xml"),
        ("show", "nope"),
    ):
        assert isinstance(invoke(*arguments).exception, UsageError)


@pytest.mark.parametrize("name", ["inputs/part-00000.parquet", "outputs/part-00000.parquet"])
async def test_a_run_whose_files_were_changed_is_not_shown(tmp_path: Path, name: str) -> None:
    async with endpoint() as server:
        await run(make_request(write_prompts(tmp_path / "p.parquet"), server.url), tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(b"other")
    for more in ((), ("--row", "0"), ("--failures", "1"), ("--errors",)):
        result = invoke("show", str(tmp_path / "run"), *more)
        assert isinstance(result.exception, UsageError)
        assert f"{name}: was changed" in str(result.exception)
