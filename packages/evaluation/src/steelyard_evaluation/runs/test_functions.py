"""A run and a comparison from a program: how they ask, score and go on, and the message of a wrong call."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

import steelyard_evaluation
from steelyard_common.errors import UsageError
from steelyard_evaluation import compare, evaluate
from steelyard_evaluation.runs.doubles import Endpoint, echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.request import RubricSpec

LIGHT = """
import sys
import steelyard_evaluation
print(*sorted(name for name in sys.modules if name.startswith("steelyard")))
"""
UNKNOWN = """
import sys
sys.modules["pyarrow"] = None
import steelyard_evaluation
steelyard_evaluation.evaluate
"""


@contextmanager
def serving(answer: Callable[[str], str] = echo) -> Iterator[Endpoint]:
    """An endpoint in a thread of its own, whose calls are answered while this one waits for a run."""
    ended, begun = Event(), Event()
    servers: list[Endpoint] = []

    async def serve() -> None:
        async with endpoint(answer) as server:
            servers.append(server)
            begun.set()
            await asyncio.to_thread(ended.wait)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, serve())
        running.add_done_callback(lambda _: begun.set())
        begun.wait()
        try:
            yield servers[0]
        finally:
            ended.set()
            running.result()


def test_two_models_are_evaluated_and_compared(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", 20)
    with serving() as right, serving(lambda prompt: "7") as wrong:
        good = evaluate(
            prompts, model="good", url=right.url, rubrics=["exact-match"], output=tmp_path / "good"
        )
        bad = evaluate(
            str(prompts), model="bad", url=[wrong.url], rubrics=["exact-match"], output=tmp_path / "bad"
        )
    assert (good.exit_code, len(right.bodies)) == (0, 20)
    assert (good.headline or "").startswith("Of 20 answers, 100 % were right")
    assert good.folder.page.exists()
    compared = compare(good, tmp_path / "bad")
    (other,) = compared.others
    assert other.comparison.difference.value == pytest.approx(-0.95)
    assert str(compared).startswith("B scores 95.0 points less than A on the 20 questions of both")
    assert compare(tmp_path / "good", bad, rubric="text.ExactMatch").others[0].p_holm == other.p_holm


def test_the_same_call_asks_nothing_again_and_may_score_anew(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", 5)
    with serving() as server:
        begun = evaluate(prompts, model="m", url=server.url, output=tmp_path / "run")
        assert begun.headlines == ()
        again = evaluate(tmp_path / "run", rubrics=["exact-match"])
    assert (len(server.bodies), again.folder) == (5, RunFolder(tmp_path / "run"))
    assert [rubric for rubric, _ in again.headlines] == ["exact-match"]


async def test_it_runs_where_a_loop_runs_as_in_a_notebook(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", 3)
    with serving() as server:
        result = evaluate(prompts, model="m", url=server.url, output=tmp_path / "run")
    assert result.manifest is not None
    assert result.manifest.rows.present == 3


def test_arguments_replace_what_a_task_file_or_a_request_says(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1", "target": "two"}\n')
    task = tmp_path / "task.yaml"
    task.write_text("data: {path: rows.jsonl}\ntemplate: '{{ question }}'\nrubrics: [exact-match]\n")
    with serving() as server:
        evaluate(
            task,
            model="m",
            url=server.url,
            template="{{ question }} is two",
            sampling={"temperature": 0.5},
            output=tmp_path / "run",
        )
        request = make_request(tmp_path / "rows.jsonl", server.url, rubrics=(RubricSpec("exact-match"),))
        other = evaluate(request, template="say two", output=tmp_path / "other")
    assert server.prompts == ["1 + 1 is two", "say two"]
    assert [body.get("temperature") for body in server.bodies] == [0.5, None]
    assert other.headlines[0][1].startswith("Of 1 answer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "http://x/v1"}, "^model: is missing$"),
        ({"model": "m"}, "^url: is missing$"),
        ({"model": "m", "url": "x"}, "^url x: "),
        ({"model": "m", "url": "http://127.0.0.1:9/v1", "rubrics": ["none"]}, "there is no rubric 'none'"),
    ],
    ids=["no model", "no address", "an address without a scheme", "an unknown rubric"],
)
def test_a_wrong_call_is_named(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", 1)
    with pytest.raises(UsageError, match=message):
        evaluate(prompts, output=tmp_path / "run", **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"missing\.yaml: no such file"):
        evaluate(tmp_path / "missing.yaml", model="m", url="http://x/v1")


def test_the_import_loads_nothing_until_a_name_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["steelyard_evaluation"]
    with pytest.raises(AttributeError, match="has no attribute 'evaluated'"):
        steelyard_evaluation.evaluated  # type: ignore[attr-defined] # noqa: B018


def test_a_library_that_is_missing_is_named_with_what_installs_it() -> None:
    done = subprocess.run([sys.executable, "-c", UNKNOWN], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "evaluate needs pyarrow" in last
    assert last.endswith("pip install 'steelyard-evaluation[eval]'")
