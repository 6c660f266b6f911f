"""`python -m steelyard.steps.runner_sklearn --model FOLDER`.

Serves a classifier saved as ONNX (scikit-learn's by skl2onnx, and others).

The folder holds `model.onnx`, and `labels.json` (a list of names) where the classes have names of their own.

    POST /predict {"image": [...]}  ->  {"label": 3, "probabilities": {"0": 0.01, ...}}
    POST /predict {"data": [[...], ...]}  ->  {"predictions": [{"label": ..., "probabilities": ...}, ...]}
    GET /ready
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import orjson
from aiohttp import web
from numpy.typing import NDArray

from steelyard.steps.service import add_address, fail, log, serve

NAME = "runner_sklearn"
MOST_TOGETHER = 256  # requests in one run of the model: what has piled up meanwhile goes together
MOST_BYTES = 64 << 20

Prediction = dict[str, Any]


class BadInput(ValueError):
    """The request cannot be predicted; the message names the field."""


class Model:
    """An ONNX classifier: one input of shape [rows, features].

    Outputs a label per row and, where it has them, probabilities.
    """

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # replicas scale out; a Pod's share is about one core
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0]
        self._names: list[str] | None = None
        if (folder / "labels.json").exists():
            self._names = json.loads((folder / "labels.json").read_text("utf-8"))
            if not isinstance(self._names, list):
                raise BadInput("labels.json: should be a list of names, one per class")
        width = self._input.shape[1] if len(self._input.shape) == 2 else None
        self.width: int | None = width if isinstance(width, int) else None

    def predict(self, rows: NDArray[np.float32]) -> list[Prediction]:
        # ONNX Runtime refuses numbers of another type than the model's input.
        dtype = np.float64 if "double" in self._input.type else np.float32
        labels, *rest = self._session.run(None, {self._input.name: rows.astype(dtype, copy=False)})
        stated = self._name_probabilities(rest[0]) if rest else [None] * len(rows)
        return [
            {"label": self._label(label), **({"probabilities": shares} if shares is not None else {})}
            for label, shares in zip(np.asarray(labels).tolist(), stated, strict=True)
        ]

    def _label(self, label: int | str) -> int | str:
        """The model's own label; where it is a position and the classes have names, the name."""
        return self._names[label] if self._names is not None and isinstance(label, int) else label

    def _name_probabilities(self, probabilities: Any) -> list[dict[str, float]]:
        if isinstance(
            probabilities, list
        ):  # skl2onnx's zipmap: a dictionary per row, with the labels themselves
            return [{str(self._label(k)): float(v) for k, v in row.items()} for row in probabilities]
        names = self._names or [str(k) for k in range(probabilities.shape[1])]
        return [dict(zip(names, row, strict=True)) for row in probabilities.tolist()]


@dataclass(frozen=True)
class _Waiting:
    rows: NDArray[np.float32]
    done: asyncio.Future[list[Prediction]]


class Batcher:
    """Runs the model in one thread; requests that arrive meanwhile go into the next run together."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1)

    async def predict(self, rows: NDArray[np.float32]) -> list[Prediction]:
        waiting = _Waiting(rows, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(waiting)
        return await waiting.done

    async def run(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < MOST_TOGETHER and not self._waiting.empty():
                # Whatever has piled up during the last run goes together; no request waits for a batch to fill.
                batch.append(self._waiting.get_nowait())
            # Rows of another width cannot stand in one array: they run apart, and fail alone.
            for width in {request.rows.shape[1] for request in batch}:
                await self._run([request for request in batch if request.rows.shape[1] == width])

    def close(self) -> None:
        """End the thread, after the run that it is in."""
        self._thread.shutdown(wait=False)

    async def _run(self, batch: Sequence[_Waiting]) -> None:
        rows = np.concatenate([request.rows for request in batch])
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._thread, self._model.predict, rows)
        except Exception as error:  # noqa: BLE001 - the loop's edge: a failed run is its callers' failure alone
            for request in batch:
                if not request.done.done():
                    request.done.set_exception(RuntimeError(f"the model failed: {error}"))
        else:
            start = 0
            for request in batch:
                if not request.done.done():  # a caller that hung up has cancelled it
                    request.done.set_result(answers[start : start + len(request.rows)])
                start += len(request.rows)


def read_rows(body: bytes, width: int | None) -> tuple[NDArray[np.float32], bool]:
    """The rows asked for, and whether it was a single one."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict) or not ({"image", "data"} & request.keys()):
        raise BadInput('the body should be {"image": [numbers]} or {"data": [[numbers], ...]}')
    field = "image" if "image" in request else "data"
    try:
        rows = np.asarray(request[field], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{field}: should be a list of numbers, or of rows of equal length") from error
    single = rows.ndim == 1
    rows = rows[np.newaxis] if single else rows
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise BadInput(f"{field}: should be a list of numbers, or a list of such rows")
    if width is not None and rows.shape[1] != width:
        raise BadInput(f"{field}: the model takes {width} numbers per row, got {rows.shape[1]}")
    # A model answers NaN with some class: an error that looks like an answer.
    if not np.isfinite(rows).all():
        raise BadInput(f"{field}: every number has to be finite")
    return rows, single


def make_app(model: Model) -> web.Application:
    batcher = Batcher(model)

    async def predict(request: web.Request) -> web.Response:
        try:
            rows, single = read_rows(await request.read(), model.width)
        except BadInput as error:
            return _json({"error": str(error)}, 400)
        try:
            answers = await batcher.predict(rows)
        except RuntimeError as error:
            log("error", NAME, str(error))
            return _json({"error": str(error)}, 500)
        return _json(answers[0] if single else {"predictions": answers})

    async def ready(_: web.Request) -> web.Response:
        return _json({"status": "ready"})

    async def running(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()
        batcher.close()

    app = web.Application(client_max_size=MOST_BYTES)
    app.add_routes([web.post("/predict", predict), web.get("/ready", ready)])
    app.cleanup_ctx.append(running)
    return app


def _json(content: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m steelyard.steps.{NAME}")
    parser.add_argument("--model", type=Path, default=Path("/dyff/mnt/volume"), metavar="FOLDER")
    add_address(parser, 8000)
    arguments = parser.parse_args()
    path = arguments.model / "model.onnx"
    if not path.is_file():
        fail(NAME, "ModelMissing", f"there is no {path}")
    try:
        model = Model(arguments.model)
    except (BadInput, ValueError, RuntimeError) as error:
        fail(NAME, "BadModel", f"{path}: {error}")
    serve(NAME, make_app(model), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
