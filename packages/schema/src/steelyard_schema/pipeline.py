"""Pipeline: requests that refer to each other, as a graph that is run with arguments.

In the fields of a node's request, `$(keyword)` stands for an argument of the run, `$(node)` or `$(node.id)` for the id
of the entity that another node creates.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard_schema.analysis import AnalysisArgument
from steelyard_schema.base import DyffEntity, SchemaModel, Time
from steelyard_schema.bounds import FEW, Count, Line, Summary, Word
from steelyard_schema.evaluation import EvaluationClientConfiguration, Replications
from steelyard_schema.model import Accelerator

Reference = Word
"""Id of an entity, `family@tag`, or a placeholder."""


class PipelineScope(SchemaModel):
    """Entities that the results of an analysis are about."""

    dataset: Reference | None = None
    """Id of the dataset, or a placeholder."""
    inferenceService: Reference | None = None
    """Id of the inference service, or a placeholder."""
    evaluation: Reference | None = None
    """Id of the evaluation, or a placeholder."""
    model: Reference | None = None
    """Id of the model, or a placeholder."""


class PipelineInput(SchemaModel):
    """An entity whose data the method reads."""

    keyword: Word
    """Name of the method's input."""
    entity: Reference
    """Id of the entity, or a placeholder."""


class PipelineSession(SchemaModel):
    """Session that is started for an evaluation."""

    expires: Time | None = None
    """Time at which the session ends by itself."""
    replicas: Count = 1
    """Number of replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """True if cheaper nodes may be used that can be taken away at any time."""
    inferenceService: Reference
    """Id of the service, or a placeholder."""


class PipelineEvaluationRequest(SchemaModel):
    """Creates an evaluation when the pipeline runs."""

    dataset: Reference
    """Id of the dataset, or a placeholder."""
    replications: Replications = 1
    """Number of times that every row is asked."""
    workersPerReplica: Count | None = None
    """Maximum requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """Settings of the client that sends the requests, and its treatment of errors."""
    inferenceSession: PipelineSession | None = None
    """Session to start."""
    inferenceSessionReference: Reference | None = None
    """Field of evaluations outside pipelines; never set."""
    kind: Literal["PipelineEvaluationRequest"] = "PipelineEvaluationRequest"
    """Kind of the request: PipelineEvaluationRequest."""

    @model_validator(mode="after")
    def _own_session(self) -> Self:
        if self.inferenceSession is None or self.inferenceSessionReference is not None:
            raise ValueError(
                "inferenceSession should be set, and inferenceSessionReference not: a pipeline starts its own session"
            )
        return self


class PipelineAnalysisRequest(SchemaModel):
    """Applies a method when the pipeline runs."""

    scope: PipelineScope = Field(default_factory=PipelineScope)
    """Entities that the results are about."""
    arguments: Annotated[list[AnalysisArgument], FEW] = Field(default_factory=list)
    """Arguments of the method."""
    inputs: Annotated[list[PipelineInput], FEW] = Field(default_factory=list)
    """Entities whose data the method reads."""
    method: Reference
    """Id of the method, or a placeholder."""


class PipelineMeasurementRequest(PipelineAnalysisRequest):
    """Creates a measurement when the pipeline runs."""

    kind: Literal["PipelineMeasurementRequest"] = "PipelineMeasurementRequest"
    """Kind of the request: PipelineMeasurementRequest."""


class PipelineSafetyCaseRequest(PipelineAnalysisRequest):
    """Creates a safety case when the pipeline runs."""

    kind: Literal["PipelineSafetyCaseRequest"] = "PipelineSafetyCaseRequest"
    """Kind of the request: PipelineSafetyCaseRequest."""


PipelineRequest = Annotated[
    PipelineEvaluationRequest | PipelineMeasurementRequest | PipelineSafetyCaseRequest,
    Field(discriminator="kind"),
]


class PipelineNode(SchemaModel):
    """A node of a pipeline's graph."""

    name: Word
    """Name of the node."""
    request: PipelineRequest
    """Request that is sent when the pipeline runs. The placeholder `$(node)` makes it depend on another node."""


class PipelineParameter(SchemaModel):
    """A parameter of a pipeline."""

    keyword: Word
    """Name of the parameter."""
    destination: Line | None = None
    """Field that the argument overwrites, such as `node.field1.field2`; without it, the argument is a text that takes
    the place of `$(keyword)`."""
    description: Summary | None = None
    """Description, at most 280 characters."""


class PipelineFields(SchemaModel):
    """Fields of a Pipeline besides those of every entity."""

    name: Word
    """Name for people."""
    nodes: Annotated[dict[Word, PipelineNode], Field(min_length=1, max_length=1000)]
    """Nodes of the graph by their names."""
    parameters: Annotated[dict[Word, PipelineParameter], FEW] = Field(default_factory=dict)
    """Parameters by their keywords."""

    @model_validator(mode="after")
    def _keys(self) -> Self:
        for key, node in self.nodes.items():
            if key != node.name:
                raise ValueError(f"nodes.{key}.name: {node.name!r} should be the node's key, {key!r}")
        for key, parameter in self.parameters.items():
            if key != parameter.keyword:
                raise ValueError(
                    f"parameters.{key}.keyword: {parameter.keyword!r} should be the parameter's key, {key!r}"
                )
        return self


class Pipeline(PipelineFields, DyffEntity):
    """Requests that refer to each other, as a graph that is run with arguments."""

    kind: Literal["Pipeline"] = "Pipeline"
    """Kind of the entity: Pipeline."""
