"""A platform on loopback and the published client of it, for calls of every one of its methods.

The client blocks and calls from the test's thread; the platform runs in another one.
"""

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.broker.log import EVENTS, Message
from steelyard_common.types import Json
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus, command_time
from steelyard_schema.entities import PLURALS
from steelyard_schema.names import WHOLE_LOG, place
from tests.platform_api.memory_platform import dataset, model, service
from tests.platform_api.test_collection import METHOD, OUTPUTS
from tests.platform_api.test_served import ServedPlatform, served

T = TypeVar("T")
ACCOUNT = "test"


class Laboratory:
    """The platform, the published client, and entities of each kind to try it on."""

    def __init__(
        self, api: Any, platform: ServedPlatform, loop: asyncio.AbstractEventLoop, folder: Path
    ) -> None:
        self.api = api
        self.platform = platform
        self.folder = folder
        self._loop = loop

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the platform runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def post(self, path: str, **fields: Any) -> Json:
        """Create something by the API itself, without the published client."""
        body = {"account": ACCOUNT, **fields}
        answer = httpx.post(
            f"{self.platform.url}/{path}", json=body, headers=self.platform.headers, timeout=60
        )
        assert answer.status_code == 200, answer.text
        made: Json = answer.json()
        return made

    def make(self, kind: str) -> str:  # noqa: C901, PLR0912 (one case for each kind)
        """Create an entity of a kind, and return its id."""
        match kind:
            case "Dataset":
                fields: Json = dataset()
            case "Module":
                fields = {"name": "m", "artifacts": dataset()["artifacts"]}
            case "Model":
                fields = model()
            case "InferenceService":
                fields = service(self.make("Model"))
            case "InferenceSession":
                made = self.post("inferencesessions", inferenceService=self.make("InferenceService"))
                return str(made["inferencesession"]["id"])
            case "Evaluation":
                session = {"inferenceService": self.make("InferenceService")}
                fields = {"dataset": self.make("Dataset"), "inferenceSession": session}
            case "Report":
                fields = {"rubric": "r", "evaluation": self.make("Evaluation")}
            case "Method":
                fields = {**METHOD, "output": {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}}
            case "Measurement":
                output = {"kind": "Measurement", "measurement": OUTPUTS["Measurement"]}
                fields = self.analysis(self.post("methods", **METHOD, output=output)["id"])
            case "SafetyCase":
                fields = self.analysis(self.make("Method"))
            case "Family":
                fields = {"memberKind": "Dataset"}
            case "UseCase" | "OCIArtifact":
                fields = {}
            case "Pipeline":
                fields = self.graph()
            case "Challenge":
                fields = {}
            case "Team":
                entered = f"challenges/{self.make('Challenge')}/teams"
                return str(self.post(entered, members={}, affiliations={})["id"])
        return str(self.post(PLURALS[kind], **fields)["id"])

    def analysis(self, method: str) -> Json:
        """Fields of an analysis by a method."""
        return {
            "method": method,
            "scope": {"inferenceService": self.make("InferenceService")},
            "inputs": [{"keyword": "data", "entity": self.make("Dataset")}],
        }

    def graph(self) -> Json:
        """Fields of a pipeline with one parameter."""
        session = {"inferenceService": self.make("InferenceService")}
        request = {"kind": "PipelineEvaluationRequest", "dataset": "$(data)", "inferenceSession": session}
        nodes = {"ask": {"name": "ask", "request": request}}
        return {"name": "p", "nodes": nodes, "parameters": {"data": {"keyword": "data"}}}

    def assessment(self) -> Json:
        """Fields of a pipeline that asks a submitted service."""
        fields = self.graph()
        session = {"inferenceService": "$(submission)"}
        fields["nodes"]["ask"]["request"] |= {"dataset": self.make("Dataset"), "inferenceSession": session}
        return {**fields, "parameters": {"submission": {"keyword": "submission"}}}

    def finished(self, kind: str, *, files: bool = True) -> str:
        """Create an entity that has completed, with a file and a log."""
        id = self.make(kind)
        self.finish(kind, id, files=files)
        return id

    def finish(self, kind: str, id: str, *, files: bool = True) -> None:
        """Complete an entity, with a file and a log."""
        self.wait(self._finish(kind, id, files))

    async def _finish(self, kind: str, id: str, files: bool) -> None:
        engines, folder = self.platform.engines, place(kind, id)
        if files:
            await engines.store.put(f"{folder}/out.txt", b"content")
            await engines.store.put(f"{folder}/{WHOLE_LOG}", b"one\ntwo\n")
        status = "Ready" if kind == "Model" else "Complete"
        data = StatusData(id=id, kind=kind, attributes=StatusPatch(status=status))
        now = datetime.now(UTC)
        headers = {"id": uuid.uuid4().hex, "source": "informer", "time": command_time(now)}
        await engines.log.publish([Message(EVENTS, id, UpdateEntityStatus(data=data).dump_json(), headers)])
        async with asyncio.timeout(60):
            while True:
                version = engines.view.version()
                stored = await engines.view.get(kind, id)
                if stored is not None and orjson.loads(stored.json)["status"] == status:
                    return
                await engines.view.wait_for_change(version, 1)

    def scored(self) -> str:
        """Create a safety case that has completed, with a score and a curve."""
        id = self.finished("SafetyCase")
        case = self.api.safetycases.get(id)
        refs = {"method": case.method.id, "inferenceService": case.scope.inferenceService}
        text = {"title": "T", "summary": "S", "analysis": id, "metadata": {"refs": refs}}
        score = {**text, "name": "good", "quantity": 0.5, "quantityString": "0.5", "text": "half"}
        axis = {"name": "x", "title": "X", "summary": "S"}
        curve = {**text, "name": "slope", "dimensions": {"x": axis}, "points": {"x": [0.0, 1.0]}}
        for name, content in (("scores", score), ("curves", curve)):
            key = f"{place('SafetyCase', id)}/.dyff/{name}.json"
            self.wait(self.platform.engines.store.put(key, orjson.dumps({name: [content]})))
        return id

    def rows(self) -> Path:
        """Return a folder of Parquet files."""
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir()
        pq.write_table(pa.table({"_index_": pa.array([0, 1], pa.int64())}), folder / "part.parquet")
        return folder

    def later(self) -> datetime:
        """Return a time before a session's end."""
        return datetime.now(UTC) + timedelta(minutes=30)


@contextmanager
def laboratory(folder: Path) -> Iterator[Laboratory]:
    """Serve a platform from another thread."""
    from dyff.client import Client

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = served(folder)
    try:
        platform = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(20)
        client = Client(api_token=platform.token, endpoint=platform.url)
        try:
            yield Laboratory(client, platform, loop, folder)
        finally:
            client._http.close()  # it has no public close
            asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
