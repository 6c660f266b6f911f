"""Presets of the client compared with `steelyard eval run`: the same requests, and answers in the same columns."""

import json
from collections.abc import Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.client import presets
from steelyard_common.bounded_parquet import read_table
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.adapters import create_pipeline
from steelyard_evaluation.engine.openai import OUTPUT_SCHEMA, chat_encoder, completions_encoder, reader
from steelyard_evaluation.engine.plan import answers_through, requests_through
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import Shape, output_schema
from steelyard_schema.data import SchemaAdapter
from steelyard_schema.inference_service import InferenceInterface

CHOICE = {"index": 0, "finish_reason": "stop", "logprobs": None}
CHAT = {
    "choices": [
        {**CHOICE, "message": {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}},
        {**CHOICE, "message": {"role": "assistant", "content": None}, "finish_reason": "length"},
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}
COMPLETION = {"choices": [{**CHOICE, "text": " 4", "logprobs": {"token_logprobs": [None, -0.5, -0.25]}}]}


def pipeline(specs: Sequence[SchemaAdapter] | None) -> Sequence[SchemaAdapter]:
    return [SchemaAdapter.model_validate_json(spec.model_dump_json()) for spec in specs or ()]


def request_of(interface: InferenceInterface, row: dict[str, JsonValue]) -> JsonValue:
    return orjson.loads(requests_through(create_pipeline(pipeline(interface.inputPipeline)))(row))


@pytest.mark.parametrize(
    ("interface", "answer", "api"),
    [
        (presets.chat(), CHAT, "chat"),
        (presets.completions(), COMPLETION, "completions"),
    ],
)
def test_answers_have_the_columns_of_eval_run(
    interface: InferenceInterface, answer: JsonValue, api: str
) -> None:
    schema = output_schema(interface.outputSchema.arrowSchema)
    assert schema == OUTPUT_SCHEMA
    read = answers_through(create_pipeline(pipeline(interface.outputPipeline)), Shape(schema))
    wanted = [
        {name: value for name, value in response.items() if value is not None}
        for response in reader(api)(orjson.dumps(answer))  # type: ignore[arg-type]
    ]
    got = [
        {name: value for name, value in response.items() if value is not None}
        for response in read(orjson.dumps(answer))
    ]
    assert got == wanted


SURE = {"label": 4, "probabilities": {"4": 0.75, "five": 0.25}}


@pytest.mark.parametrize(
    ("interface", "answer"),
    [
        (presets.chat(), CHAT),
        (presets.completions(), COMPLETION),
        (presets.classification(), SURE),
        (presets.classification(), {"label": 4}),
    ],
)
def test_answers_load_in_datasets_of_hugging_face(
    interface: InferenceInterface, answer: JsonValue, tmp_path: Path
) -> None:
    schema = output_schema(interface.outputSchema.arrowSchema)
    read = answers_through(create_pipeline(pipeline(interface.outputPipeline)), Shape(schema))
    row = {"_index_": 0, "_replication_": "r", "responses": read(orjson.dumps(answer))}
    table = pa.Table.from_pylist([row, {"_index_": 1, "_replication_": "r"}], schema)
    pq.write_table(table, tmp_path / "part.parquet")
    first, failed = to_rows(read_table(tmp_path / "part.parquet"))
    assert failed["responses"] is None
    if "label" in answer:
        assert first["responses"][0]["probabilities"] == answer.get("probabilities")
    import datasets  # slow, also for a worker that collects this file and runs others

    datasets.disable_progress_bars()
    loaded = datasets.Dataset.from_parquet(str(tmp_path / "part.parquet"), cache_dir=str(tmp_path / "cache"))
    assert loaded[0]["responses"][0]["_response_index_"] == 0
    assert len(loaded) == 2


def test_requests_are_those_of_eval_run() -> None:
    row: dict[str, JsonValue] = {"_index_": 3, "prompt": "$x costs?", "other": 1}
    system = {"role": "system", "content": "$be brief"}
    asked = request_of(presets.chat(system="$be brief", temperature=0, stop=["$"]), row)
    wanted = json.loads(chat_encoder("m", {"temperature": 0, "stop": ["$"]}, [system])("$x costs?"))
    assert {"model": "m", **asked} == wanted
    asked = request_of(presets.completions("my prompt", max_tokens=5), {"my prompt": "a"})
    assert {"model": "m", **asked} == json.loads(completions_encoder("m", {"max_tokens": 5})("a"))


def test_what_a_preset_sets_itself_is_no_parameter() -> None:
    with pytest.raises(ValueError, match="messages, n: is not a parameter"):
        presets.chat(n=2, messages=[])
