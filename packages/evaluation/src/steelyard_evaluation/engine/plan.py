"""Plan of an evaluation: its requests, compiled once from the resource's spec, used for every row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson
import pyarrow as pa

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.adapters import Adapter, AdapterNotImplemented, Item, create_pipeline
from steelyard_evaluation.engine.call import Client
from steelyard_evaluation.engine.caps import Caps, Usage
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.limit import DEFAULT_MOST, Concurrency
from steelyard_evaluation.engine.retry import WAIT_FOR_SERVER_SECONDS
from steelyard_evaluation.engine.rows import as_text
from steelyard_evaluation.engine.shape import Malformed, Shape, output_schema
from steelyard_schema.evaluation import EvaluationClientConfiguration
from steelyard_schema.ids import replication_id
from steelyard_schema.inference_service import ForeignInferenceService
from steelyard_schema.resources import EvaluationResourceSpec

_ROW_FAULTS = (ValueError, TypeError, LookupError, AttributeError)


class BadInput(ValueError):
    """A row of the dataset cannot be turned into a request."""


@dataclass(frozen=True)
class Plan:
    """One evaluation, compiled."""

    evaluation: str
    replications: tuple[str, ...]
    session: str
    """Id of the session whose replicas may be called."""
    referenced: bool
    """True where the session belongs to another entity, and may end before the evaluation does."""
    endpoint: str
    client: EvaluationClientConfiguration
    schema: pa.Schema
    request: Callable[[Item], bytes]
    """A row as the body of its call; BadInput when it cannot be."""
    read: Callable[[bytes], list[dict[str, JsonValue]]]
    """An answer as the responses of its row; Malformed when it cannot be."""
    identity: Mapping[str, JsonValue]
    settings: Mapping[str, JsonValue]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every call; a key may be among them, so they are written nowhere."""
    usage: Callable[[list[dict[str, JsonValue]]], Usage] | None = None
    """The tokens of a row's responses, where the service reports them."""
    caps: Caps = field(default_factory=Caps)
    wasted: Callable[[bytes], Usage] | None = None
    """The tokens of an answer that cannot be used, as far as it reports them: they are paid all the same."""
    lacks_text: Callable[[bytes], bool] | None = None
    """Returns whether an answer that can be read has null for its text, and nothing in its place."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    wait_for_server: float = WAIT_FOR_SERVER_SECONDS
    """Seconds for which every replica may refuse connections before the evaluation ends."""
    around: Callable[[Callable[[str], Client]], Client] | None = None
    """Makes the client of a replica, given a way to open one for a path below its base URL. None: the endpoint's."""

    def __post_init__(self) -> None:
        if self.usage is None and self.caps.counted:
            raise ValueError("a cap of tokens or cost needs a usage to count")


def compile_plan(spec: EvaluationResourceSpec) -> Plan:
    """Compile `spec`; EvaluationFailed (permanent) says what in it cannot work."""
    interface = spec.inferenceSession.inferenceService.interface
    try:
        schema = output_schema(interface.outputSchema.arrowSchema)
        before = create_pipeline([*(spec.client.inputPipeline or ()), *(interface.inputPipeline or ())])
        after = create_pipeline(interface.outputPipeline)
    # Before ValueError's clause, and with a reason of its own: the user's request is right, this version
    # lacks it.
    except AdapterNotImplemented as error:
        raise EvaluationFailed("NotImplemented", str(error), permanent=True) from error
    except ValueError as error:
        raise EvaluationFailed("BadInterface", str(error), permanent=True) from error
    # Whatever changes an answer belongs here; how fast it is asked belongs into `settings` and may change
    # between attempts.
    identity = {
        "evaluation": spec.id,
        "replications": spec.replications,
        "interface": interface.model_dump(mode="json", by_alias=True, exclude_none=True),
        "inputPipeline": [adapter.model_dump(mode="json") for adapter in spec.client.inputPipeline or ()],
        "inferenceService": _system(spec.inferenceSession.inferenceService),
    }
    return Plan(
        evaluation=spec.id,
        replications=tuple(replication_id(spec.id, number) for number in range(spec.replications)),
        session=spec.inferenceSessionReference or spec.id,
        referenced=spec.inferenceSessionReference is not None,
        endpoint=interface.endpoint.strip("/"),
        client=spec.client,
        schema=schema,
        request=requests_through(before),
        read=answers_through(after, Shape(schema)),
        identity=identity,
        settings=spec.client.model_dump(mode="json") | {"workersPerReplica": spec.workersPerReplica},
        concurrency=Concurrency(spec.workersPerReplica or DEFAULT_MOST, adaptive=True),
    )


def _system(service: ForeignInferenceService) -> dict[str, JsonValue]:
    """Return the evaluated system by id and by the name that a report shows."""
    system: dict[str, JsonValue] = {"id": service.id, "name": service.name}
    if service.model is not None:
        system["model"] = {"id": service.model.id, "name": service.model.name}
    return system


def requests_through(pipeline: Adapter) -> Callable[[Item], bytes]:
    """Rows to request bodies: through the pipeline, which must give exactly one object."""

    def request(item: Item) -> bytes:
        try:
            (adapted,) = pipeline([item])
            # Dates, times and decimals of a dataset have no form in JSON; services take them as text.
            return orjson.dumps(adapted, default=as_text, option=orjson.OPT_SERIALIZE_NUMPY)
        except _ROW_FAULTS as error:
            raise BadInput(f"the input pipeline cannot take the row: {error}") from error

    return request


def answers_through(pipeline: Adapter, shape: Shape) -> Callable[[bytes], list[dict[str, JsonValue]]]:
    """Answers to responses: JSON, through the pipeline, checked against the output schema and numbered."""

    def read(body: bytes) -> list[dict[str, JsonValue]]:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Malformed(f"the answer is not JSON: {error}") from error
        try:
            return shape(list(pipeline([answer])))
        # Malformed is a ValueError, which is also among the faults below: its own message stays.
        except Malformed:
            raise
        except _ROW_FAULTS as error:
            raise Malformed(f"the output pipeline cannot take the answer: {error}") from error

    return read
