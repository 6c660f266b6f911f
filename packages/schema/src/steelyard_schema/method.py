"""Method: a program that turns datasets, evaluations and measurements into a measurement or a safety case."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard_schema.base import DyffEntity, Foreign, SchemaModel
from steelyard_schema.bounds import FEW, Id, Line, Text, Word
from steelyard_schema.curve import CurveSpec
from steelyard_schema.data import DataSchema
from steelyard_schema.inference_service import ContainerImageSource
from steelyard_schema.score import ScoreSpec

MethodScope = Literal["InferenceService", "Evaluation"]
MethodInputKind = Literal["Dataset", "Evaluation", "Measurement", "Report"]
MethodOutputKind = Literal["Measurement", "SafetyCase"]
MeasurementLevel = Literal["Dataset", "Instance"]


class MeasurementSpec(SchemaModel):
    """Description of a measurement."""

    name: Word
    """Name for people."""
    description: Text | None = None
    """Description in Markdown."""
    level: MeasurementLevel
    """Dataset for one row about the whole dataset, Instance for a row about each of its rows."""
    schema_: DataSchema = Field(alias="schema")
    """Schema of the measurement's rows."""


class SafetyCaseSpec(SchemaModel):
    """Description of a safety case."""

    name: Word
    """Name for people."""
    description: Text | None = None
    """Description in Markdown."""


class MethodImplementationJupyterNotebook(SchemaModel):
    """A notebook that runs in an analysis."""

    notebookModule: Id
    """Id of the module that holds the notebook."""
    notebookPath: Line
    """Path of the notebook in the module."""


class MethodImplementationPythonFunction(SchemaModel):
    """A Python function that runs in an analysis."""

    fullyQualifiedName: Line
    """Name of the function, with its package."""


class MethodImplementationPythonRubric(SchemaModel):
    """A rubric that runs in an analysis."""

    fullyQualifiedName: Line
    """Name of the rubric's class, with its package."""


class MethodImplementation(SchemaModel):
    """Program of a method. The field that belongs to `kind` is set."""

    kind: Word
    """Kind of program: JupyterNotebook, PythonFunction or PythonRubric."""
    pythonFunction: MethodImplementationPythonFunction | None = None
    """Function, if the kind is PythonFunction."""
    pythonRubric: MethodImplementationPythonRubric | None = None
    """Rubric, if the kind is PythonRubric."""
    jupyterNotebook: MethodImplementationJupyterNotebook | None = None
    """Notebook, if the kind is JupyterNotebook."""


class MethodParameter(SchemaModel):
    """A parameter of a method."""

    keyword: Word
    """Name of the parameter."""
    description: Text | None = None
    """Description in Markdown."""


class MethodInput(SchemaModel):
    """An entity whose data a method reads."""

    kind: MethodInputKind
    """Kind of the entity: Dataset, Evaluation, Measurement or Report."""
    keyword: Word
    """Name of the input."""
    description: Text | None = None
    """Description in Markdown."""


class MethodOutput(SchemaModel):
    """Output of a method. The field that belongs to `kind` is set."""

    kind: MethodOutputKind
    """Kind of the output: Measurement or SafetyCase."""
    measurement: MeasurementSpec | None = None
    """Description of the measurement, if the kind is Measurement."""
    safetyCase: SafetyCaseSpec | None = None
    """Description of the safety case, if the kind is SafetyCase."""


def _one_primary(scores: list[ScoreSpec | CurveSpec]) -> list[ScoreSpec | CurveSpec]:
    numbers = [score for score in scores if isinstance(score, ScoreSpec)]
    primary = [score.name for score in numbers if score.priority == "primary"]
    if numbers and len(primary) != 1:
        named = f"those of {', '.join(primary)} are" if primary else "none is"
        raise ValueError(f"the priority of exactly one score should be primary; {named}")
    return scores


class MethodFields(SchemaModel):
    """Fields of a Method besides those of every entity."""

    name: Word
    """Name for people."""
    scope: MethodScope
    """Kind of entity that the outputs are about: InferenceService or Evaluation."""
    description: Text | None = None
    """Description in Markdown."""
    implementation: MethodImplementation
    """Program of the method."""
    parameters: Annotated[list[MethodParameter], FEW] = Field(default_factory=list)
    """Parameters of the method."""
    inputs: Annotated[list[MethodInput], FEW] = Field(default_factory=list)
    """Entities whose data the method reads."""
    output: MethodOutput
    """Output of the method."""
    scores: Annotated[list[ScoreSpec | CurveSpec], FEW, AfterValidator(_one_primary)] = Field(
        default_factory=list
    )
    """Scores and curves that the method computes."""
    modules: Annotated[list[Id], FEW] = Field(default_factory=list)
    """Ids of the modules that hold the method's code."""
    analysisImage: ContainerImageSource | None = None
    """Image in which the method runs; without it, the platform's own."""


class Method(MethodFields, DyffEntity):
    """A program that turns datasets, evaluations and measurements into a measurement or a safety case."""

    kind: Literal["Method"] = "Method"
    """Kind of the entity: Method."""


class ForeignMethod(MethodFields, Foreign):
    """The part of a Method that an analysis embeds."""
