"""Requests about methods and what they make, families, concerns and pipelines."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.analysis import AnalysisArgument
from steelyard_schema.base import DocumentationBase, SchemaModel
from steelyard_schema.bounds import FEW, FreeForm, Id, Summary, Title, Word
from steelyard_schema.concern import ConcernFields
from steelyard_schema.family import FamilyFields
from steelyard_schema.ids import UUID4_PATTERN
from steelyard_schema.method import MethodFields
from steelyard_schema.pipeline import PipelineFields
from steelyard_schema.requests.base import CreateRequest, EntityReference, Name
from steelyard_schema.secrets import MethodSecrets

_UUID4 = Annotated[str, Field(pattern=UUID4_PATTERN, max_length=32)]


class AnalysisRequestScope(SchemaModel):
    """Entities that the results of an analysis are about."""

    dataset: _UUID4 | None = None
    """Id of the dataset."""
    inferenceService: _UUID4 | None = None
    """Id of the inference service."""
    evaluation: _UUID4 | None = None
    """Id of the evaluation."""
    model: _UUID4 | None = None
    """Id of the model."""


class AnalysisRequestInput(SchemaModel):
    """An entity whose data the method reads."""

    keyword: Word
    """Name of the method's input."""
    entity: EntityReference
    """Id of the entity, or `family@tag`."""


class AnalysisCreateRequest(CreateRequest):
    """Creates a measurement or a safety case: a method is applied to data."""

    scope: AnalysisRequestScope = Field(default_factory=AnalysisRequestScope)
    """Entities that the results are about; at least the one that the method's scope names."""
    arguments: Annotated[list[AnalysisArgument], FEW] = Field(default_factory=list)
    """Arguments of the method."""
    inputs: Annotated[list[AnalysisRequestInput], FEW] = Field(default_factory=list)
    """Entities whose data the method reads."""
    method: EntityReference
    """Id of the method, or `family@tag`."""


class MethodCreateRequest(MethodFields, CreateRequest):
    """Creates a method."""

    name: Name
    """Name for people."""
    secrets: MethodSecrets | None = None
    """Secrets of the account that the method's measurements and safety cases need, by name."""


class FamilyCreateRequest(FamilyFields, CreateRequest):
    """Creates a family, whose members are added by an edit."""


class NewDocumentation(DocumentationBase):
    """Documentation of a new entity, with the limits that an edit has. Stored ones may be older, and longer."""

    title: Title | None = None
    """Title, at most 140 characters."""
    summary: Summary | None = None
    """Summary in Markdown, at most 280 characters."""


class ConcernCreateRequest(ConcernFields, CreateRequest):
    """Creates a use case or a hazard."""

    documentation: NewDocumentation = Field(default_factory=NewDocumentation)
    """Documentation of the concern; edits go to `metadata.documentation`."""


class PipelineCreateRequest(PipelineFields, CreateRequest):
    """Creates a pipeline."""

    name: Name
    """Name for people."""


class PipelineRunRequest(CreateRequest):
    """Runs a pipeline."""

    pipeline: Id
    """Id of the pipeline."""
    arguments: FreeForm = Field(default_factory=dict)
    """Arguments by the keywords of the pipeline's parameters."""


class RerunRequest(CreateRequest):
    """Runs the pipeline of an earlier run again, with the same arguments."""

    steps: Annotated[list[Word], FEW] | None = None
    """Nodes that run again, and with them those that need them; of the others the new run keeps the workflows, which
    must have succeeded. Without it, all run again."""
