"""Runners and interfaces that come with Steelyard, so that a first evaluation needs no image and no schema by hand."""

import base64
from collections.abc import Sequence

from steelyard.client.errors import MissingPackage
from steelyard.schema.base import EntityIdentifier
from steelyard.schema.data import DataSchema, SchemaAdapter
from steelyard.schema.inference_service import (
    ContainerImageSource,
    InferenceInterface,
    InferenceServiceRunner,
    VolumeMount,
    VolumeMountData,
)
from steelyard.schema.model import ModelResources

MODEL_PATH = "/dyff/mnt/volume"
ANY_DIGEST = "sha256:" + "0" * 64
"""Digest of the images of one machine, which are names of Python environments and are not compared."""


def onnx_classifier(model: str, *, cpu: str = "100m", memory: str = "256Mi") -> InferenceServiceRunner:
    """Serves the `model.onnx` of a Model, given by its id: a row's numbers in, `label` and `probabilities` out."""
    mount = VolumeMount(
        kind="Data",
        name="model",
        mountPath=MODEL_PATH,
        data=VolumeMountData(source=EntityIdentifier(kind="Model", id=model)),
    )
    return InferenceServiceRunner(
        kind="container",
        image=_image("runner-sklearn"),
        args=["--model", MODEL_PATH],
        resources=ModelResources(cpu=cpu, memory=memory),
        volumeMounts=[mount],
    )


def mock(*arguments: str) -> InferenceServiceRunner:
    """Answers without a model; `arguments` such as `--latency-ms 50` make it slow or faulty."""
    return InferenceServiceRunner(
        kind="mock",
        image=_image("runner-mock"),
        args=list(arguments),
        resources=ModelResources(cpu="50m", memory="128Mi"),
    )


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


def _image(name: str) -> ContainerImageSource:
    return ContainerImageSource(host="localhost", name=f"steelyard/{name}", digest=ANY_DIGEST)


def _labels_schema() -> str:
    """Output rows as the evaluation client writes them: `_index_`, `_replication_`, `responses`."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingPackage("pyarrow is needed to make the schema: pip install 'steelyard[eval]'") from error
    answer = pa.struct(
        [
            pa.field("_response_index_", pa.int64()),
            pa.field("label", pa.int64()),
            pa.field("probabilities", pa.map_(pa.string(), pa.float64())),
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
