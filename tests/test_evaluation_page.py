"""docs/evaluation.md evaluates and compares two mock models from Python, as it says."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest
from aiohttp.test_utils import TestServer

from steelyard.cli.eval.mock_models import RIGHT_SHARES, MockModels
from steelyard.steps.mock_inference_service import Faults, Mock, make_app
from tests.source import ROOT

PAGE = (ROOT / "docs" / "evaluation.md").read_text()
SUMS = "".join(f'{{"prompt": "What is {a} + 17?", "target": "{a + 17}"}}\n' for a in range(10, 90))


@pytest.fixture
def mock() -> Iterator[str]:
    """Address of the models of `steelyard eval mock`, served by a thread."""
    ended, addresses = Event(), SimpleQueue[str]()

    async def serve() -> None:
        app = make_app(Mock(Faults(), models=tuple(RIGHT_SHARES), answer_to=MockModels()))
        async with TestServer(app) as server:
            addresses.put(str(server.make_url("/v1")))
            await asyncio.to_thread(ended.wait)

    with ThreadPoolExecutor(1) as thread:
        serving = thread.submit(asyncio.run, serve())
        yield addresses.get()
        ended.set()
        serving.result()


def test_the_block_evaluates_and_compares(
    mock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.jsonl").write_text(SUMS)
    assert "http://127.0.0.1:8000/v1" in code
    exec(code.replace("http://127.0.0.1:8000/v1", mock))
    headline, page, compared = capsys.readouterr().out.splitlines()
    assert re.match(r"Of 80 answers, [\d.]+ % were right", headline)
    assert Path(page) == Path("large-run/report.html")
    assert (tmp_path / page).exists()
    assert re.match(r"B scores [\d.]+ points more than A on the 80 questions of both, ", compared)
