"""Runners and interfaces that come with Steelyard, so that a first evaluation needs no image and no schema by hand."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from steelyard.client.errors import MissingPackage
from steelyard_common.types import JsonValue
from steelyard_schema.base import EntityIdentifier
from steelyard_schema.data import DataSchema, SchemaAdapter
from steelyard_schema.hosted_model import IMAGE_HOST, IMAGE_NAME, HostedModel
from steelyard_schema.inference_service import (
    ContainerImageSource,
    InferenceInterface,
    InferenceServiceRunner,
    VolumeMount,
    VolumeMountData,
)
from steelyard_schema.model import Accelerator, AcceleratorGPU, ModelResources

if TYPE_CHECKING:
    import pyarrow as pa

MODEL_PATH = "/dyff/mnt/volume"
ANY_DIGEST = "sha256:" + "0" * 64
"""Digest of the images of one machine, which are names of Python environments and are not compared."""

ANSWER_SCHEMA = (
    "/////8ACAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAMAAABYAgAAEAIAAAQAAADE/f//AAAB"
    "DBQAAAAgAAAABAAAAAEAAAAYAAAACQAAAHJlc3BvbnNlcwAAAPj9///0/f//AAABDTAAAAA4AAAABAAAAAgAAACEAQAAWAEAACQB"
    "AADoAAAAqAAAAHgAAABAAAAAFAAAAAQAAABpdGVtAAAAAED+//88/v//AAABBRAAAAAYAAAABAAAAAAAAAAFAAAAdW5jdXQAAABo"
    "/v//ZP7//wAAAQMQAAAAIAAAAAQAAAAAAAAABwAAAGxvZ3Byb2IAAAAGAAgABgAGAAAAAAACAJj+//8AAAEFEAAAABwAAAAEAAAA"
    "AAAAAAkAAAByZWFzb25pbmcAAADI/v//xP7//wAAAQIQAAAAJAAAAAQAAAAAAAAAEQAAAGNvbXBsZXRpb25fdG9rZW5zAAAAwP7/"
    "/wAAAAFAAAAAAP///wAAAQIQAAAAIAAAAAQAAAAAAAAADQAAAHByb21wdF90b2tlbnMAAAD4/v//AAAAAUAAAAA4////AAABBRAA"
    "AAAgAAAABAAAAAAAAAANAAAAZmluaXNoX3JlYXNvbgAAAGz///9o////AAABBRAAAAAYAAAABAAAAAAAAAAEAAAAdGV4dAAAAACU"
    "////kP///wAAAQIQAAAAJAAAAAQAAAAAAAAAEAAAAF9yZXNwb25zZV9pbmRleF8AAAAAjP///wAAAAFAAAAAzP///wAAAQUQAAAA"
    "JAAAAAQAAAAAAAAADQAAAF9yZXBsaWNhdGlvbl8AAAAEAAQABAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABAhAAAAAgAAAABAAA"
    "AAAAAAAHAAAAX2luZGV4XwAIAAwACAAHAAgAAAAAAAABQAAAAA=="
)
"""Arrow schema of the answers that `steelyard eval run` keeps, in base64: it needs no pyarrow here."""
PARAMETERS = frozenset({"messages", "prompt", "model", "stream", "n"})
"""Parameters of a request that presets set themselves, or that would change the shape of an answer."""


def onnx_classifier(model: str, *, cpu: str = "100m", memory: str = "256Mi") -> InferenceServiceRunner:
    """Serves the `model.onnx` of a Model, given by its id: a row's numbers in, `label` and `probabilities` out."""
    return InferenceServiceRunner(
        kind="container",
        image=_image("runner-sklearn"),
        args=["--model", MODEL_PATH],
        resources=ModelResources(cpu=cpu, memory=memory),
        volumeMounts=[_model_mount(model)],
    )


def vllm(
    model: str, *arguments: str, cpu: str = "500m", memory: str | None = None, gpus: int = 0
) -> InferenceServiceRunner:
    """Serves a Model that was made from a folder of the Hugging Face form by vLLM; `arguments` are `vllm serve`'s.

    `memory` bounds the whole server and sizes its cache where it runs on processors. On one machine it needs
    `steelyard runners install vllm`.
    """
    return _server("vllm", "runner-vllm", model, arguments, ModelResources(cpu=cpu, memory=memory), gpus)


def llama_cpp(
    model: str, *arguments: str, cpu: str = "500m", memory: str | None = None, gpus: int = 0
) -> InferenceServiceRunner:
    """Serves a Model that was made from a folder with a GGUF file by llama.cpp; `arguments` are its server's.

    On one machine it needs `steelyard runners install llama.cpp`.
    """
    resources = ModelResources(cpu=cpu, memory=memory)
    return _server("container", "runner-llama-cpp", model, arguments, resources, gpus)


def transformers(
    model: str, *arguments: str, cpu: str = "500m", memory: str | None = None, gpus: int = 0
) -> InferenceServiceRunner:
    """Serves a Model that was made from a folder of the Hugging Face form by Transformers' own server.

    On one machine it needs `steelyard runners install transformers`.
    """
    resources = ModelResources(cpu=cpu, memory=memory)
    return _server("container", "runner-transformers", model, arguments, resources, gpus)


def chat(prompt: str = "prompt", *, system: str | None = None, **parameters: JsonValue) -> InferenceInterface:
    """Asks an OpenAI-compatible server for a chat; rows have the text of the user in the column `prompt`.

    `parameters` go with each request, such as `temperature=0`. Answers have the columns of `steelyard eval run`:
    text, finish_reason, prompt_tokens, completion_tokens, reasoning, logprob.
    """
    before = [] if system is None else [{"role": "system", "content": _literal(system)}]
    messages: list[JsonValue] = [*before, {"role": "user", "content": _column(prompt)}]
    return _openai("chat", "v1/chat/completions", {"messages": messages}, parameters)


def completions(prompt: str = "prompt", **parameters: JsonValue) -> InferenceInterface:
    """Asks an OpenAI-compatible server to continue the text in the column `prompt`; the rest is as with `chat`."""
    return _openai("completions", "v1/completions", {"prompt": _column(prompt)}, parameters)


def mock(*arguments: str) -> InferenceServiceRunner:
    """Answers without a model; `arguments` such as `--latency-ms 50` make it slow or faulty."""
    return InferenceServiceRunner(
        kind="mock",
        image=_image("runner-mock"),
        args=list(arguments),
        resources=ModelResources(cpu="50m", memory="128Mi"),
    )


def hosted(base_url: str, model: str, **limits: JsonValue) -> InferenceServiceRunner:
    """Asks a model of a provider, at its OpenAI-compatible endpoint, such as https://HOST/v1.

    `limits` are fields of `steelyard_schema.hosted_model.HostedModel`, such as `requests_per_minute=60`,
    `cost_total="5.00"`, `input_price="0.15"` and `output_price="0.60"` (money per million tokens). The service that has
    this runner names the provider's key: `secrets={"provider": NAME}`. Raises pydantic.ValidationError.
    """
    endpoint = HostedModel.model_validate({"base_url": base_url, "model": model, **limits})
    return InferenceServiceRunner(
        kind="container",
        image=ContainerImageSource(host=IMAGE_HOST, name=IMAGE_NAME, digest=ANY_DIGEST),
        args=endpoint.arguments(),
        resources=ModelResources(cpu="50m", memory="256Mi"),
    )


def data_schema(schema: "pa.Schema") -> DataSchema:
    """Return the form in which requests have an Arrow schema, such as that of a measurement's rows."""
    return DataSchema(arrowSchema=base64.b64encode(schema.serialize().to_pybytes()).decode())


def classification(endpoint: str = "predict", fields: Sequence[str] = ()) -> InferenceInterface:
    """Asks `endpoint` with the row's `fields` (none: all of them), and takes a label with probabilities.

    Raises MissingPackage without pyarrow.
    """
    select = SchemaAdapter(kind="Select", configuration={"fields": list(fields)})
    return InferenceInterface(
        endpoint=endpoint,
        outputSchema=DataSchema(arrowSchema=_labels_schema()),
        inputPipeline=[select] if fields else None,
    )


def _server(
    kind: Literal["container", "vllm"],
    image: str,
    model: str,
    arguments: Sequence[str],
    resources: ModelResources,
    gpus: int,
) -> InferenceServiceRunner:
    """Make the runner of a known kind, which has its command from the platform."""
    gpu = AcceleratorGPU(hardwareTypes=["nvidia.com/gpu"], count=gpus) if gpus else None
    return InferenceServiceRunner(
        kind=kind,
        image=_image(image),
        args=list(arguments),
        resources=resources,
        accelerator=Accelerator(kind="GPU", gpu=gpu) if gpu else None,
        volumeMounts=[_model_mount(model)],
    )


def _model_mount(model: str) -> VolumeMount:
    source = EntityIdentifier(kind="Model", id=model)
    return VolumeMount(kind="Data", name="model", mountPath=MODEL_PATH, data=VolumeMountData(source=source))


def _openai(
    api: str, endpoint: str, question: Mapping[str, JsonValue], parameters: Mapping[str, JsonValue]
) -> InferenceInterface:
    """Make the interface of one API. Raises ValueError for a parameter that is not the caller's."""
    if ours := PARAMETERS & parameters.keys():
        raise ValueError(f"{', '.join(sorted(ours))}: is not a parameter that can be given here")
    body = {**question, **{name: _literal(value) for name, value in parameters.items()}}
    return InferenceInterface(
        endpoint=endpoint,
        outputSchema=DataSchema(arrowSchema=ANSWER_SCHEMA),
        inputPipeline=[SchemaAdapter(kind="TransformJSON", configuration=body)],
        outputPipeline=[SchemaAdapter(kind="OpenAIAnswers", configuration={"api": api})],
    )


def _column(name: str) -> str:
    """A JSONPath for a column of any name."""
    return f"$.{name}" if name.isidentifier() else f"$[{json.dumps(name)}]"


def _literal(value: JsonValue) -> JsonValue:
    """A value as a template of TransformJSON, in which `$` begins a path."""
    match value:
        # In the template language a `$` begins a path; `$$` is a dollar sign.
        case str() if value.startswith("$"):
            return f"${value}"
        case list():
            return [_literal(item) for item in value]
        case dict():
            return {f"${key}" if key.startswith("$") else key: _literal(item) for key, item in value.items()}
        case _:
            return value


def _image(name: str) -> ContainerImageSource:
    return ContainerImageSource(host="localhost", name=f"steelyard/{name}", digest=ANY_DIGEST)


def _labels_schema() -> str:
    """Output rows as the evaluation client writes them: `_index_`, `_replication_`, `responses`.

    `probabilities` are an object for programs of ours, and a list of pairs for others: few read maps of Arrow.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingPackage("pyarrow is needed to make the schema: pip install 'steelyard[eval]'") from error
    pair = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.float64())])
    answer = pa.struct(
        [
            pa.field("_response_index_", pa.int64()),
            pa.field("label", pa.int64()),
            pa.field("probabilities", pa.list_(pair), metadata={"steelyard.map": "1"}),
        ]
    )
    rows = pa.struct(
        [
            pa.field("_index_", pa.int64()),
            pa.field("_replication_", pa.string()),
            pa.field("responses", pa.list_(answer)),
        ]
    )
    return base64.b64encode(pa.schema(list(rows)).serialize().to_pybytes()).decode()
