"""The endpoint that users try the commands on."""

import asyncio
import sys
from pathlib import Path

import aiohttp

from steelyard.local.machine import lasting_port
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

ROWS = [{"prompt": f"What is {a} + {b}?", "target": str(a + b)} for a in range(2, 8) for b in range(2, 8)]


async def test_a_run_with_a_judge_against_the_mock_endpoint(tmp_path: Path) -> None:
    port = lasting_port()  # one of the ephemeral ones may be another's by the time it is bound
    command = ["-m", "steelyard.cli.main", "eval", "mock", "--port", str(port), "--latency", "0"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        url = f"http://127.0.0.1:{port}/v1"
        assert line == f"{url} serves the models small, medium, large and judge; Ctrl-C ends it\n"
        async with aiohttp.ClientSession() as session, session.get(f"{url}/models") as answer:
            models = [model["id"] for model in (await answer.json())["data"]]
        assert models == ["small", "medium", "large", "judge"]
        request = make_request(
            write_prompts(tmp_path / "p.parquet", ROWS),
            url,
            model="medium",
            judges=(JudgeSpec("judge"),),
            rubrics=(RubricSpec("exact-match"), RubricSpec("judge.Verdict")),
        )
        result = await run(request, tmp_path / "run", RunContext(environment={}))
    finally:
        process.terminate()
        await process.wait()
    assert [rubric for rubric, _ in result.headlines] == ["exact-match", "judge.Verdict"]
    assert process.returncode == 0
