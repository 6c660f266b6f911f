"""Score: a number that an analysis gives its subject, and its description in a Method."""

import re
from string import Formatter
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from steelyard_schema.analysis_scope import AnalysisScope
from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, MANY, Float, Id, Line, Summary, Title, Word

IDENTIFIER_PATTERN = "^[a-zA-Z_][a-zA-Z0-9_]*$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER_PATTERN, max_length=127)]
"""A name as programming languages have them."""
FORMAT_PATTERN = r"^(.*[^{])?[{]quantity(:[^}]*)?[}]([^}].*)?$"
"""Form of a format in the published schema: the field of the quantity stands in no other braces."""
_SPECIFICATION = re.compile(r"([^{}]?[<>=^])?[-+ ]?#?0?[0-9]{0,2}[,_]?(\.[0-9]{1,2})?[eEfFgGn%]?")
_EXAMPLES = 3.14, -2.03


def check_format(text: str) -> str:
    """Return the format. Raises ValueError for one that does not show the quantity, or for another text."""
    for _, name, specification, conversion in _parts(text):
        # Attributes of the quantity are its program's own, and a width of many digits would fill the memory.
        if name not in {None, "quantity", "unit"} or conversion:
            raise ValueError(f"{text!r} should have no other fields than {{quantity}} and {{unit}}")
        if specification and not _SPECIFICATION.fullmatch(specification):
            raise ValueError(f"{text!r}: {specification!r} should be a format of numbers such as .1f")
    try:
        texts = {text.format(quantity=quantity, unit="kg") for quantity in _EXAMPLES}
    except ValueError as error:
        raise ValueError(f"{text!r} is not a format of a number: {error}") from None
    if len(texts) < len(_EXAMPLES):
        raise ValueError(f"{text!r} should show the {{quantity}}")
    return text


def _parts(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a format: {error}") from None


class ScoreSpec(SchemaModel):
    """Description of a score that a method computes."""

    name: Identifier
    """Name of the score, which no other score of the method has."""
    title: Title
    """Title, at most 140 characters."""
    summary: Summary
    """Description of the score, in at most 280 characters."""
    valence: Literal["positive", "negative", "neutral"] = "neutral"
    """positive where more is better, negative where less is better, else neutral."""
    priority: Literal["primary", "secondary"] = "primary"
    """primary for the one score that stands for all of them, where there is room for one."""
    minimum: Float | None = None
    """Smallest possible value, if it is known."""
    maximum: Float | None = None
    """Largest possible value, if it is known."""
    format: Annotated[str, Field(pattern=FORMAT_PATTERN, max_length=4096), AfterValidator(check_format)] = (
        "{quantity:.1f}"
    )
    """Python format of the score, with the fields `quantity` and, if there is one, `unit`."""
    unit: Word | None = None
    """Unit of the score."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is greater than maximum {self.maximum}")
        return self


class ScoreMetadataRefs(AnalysisScope):
    """Entities that a score refers to."""

    method: Id
    """Id of the method that computes the score."""


class ScoreMetadata(SchemaModel):
    """Metadata of a score."""

    refs: ScoreMetadataRefs
    """Entities that the score refers to."""


class ScoreData(ScoreSpec):
    """A score as an analysis writes it."""

    metadata: ScoreMetadata
    """Metadata, by which scores are found."""
    analysis: Id
    """Id of the analysis that computed the score."""
    quantity: Float | None = None
    """Value of the score."""
    points: Annotated[dict[Word, Annotated[list[Float], MANY]], FEW] | None = None
    """Values by the name of their dimension, of a score that is a curve."""
    quantityString: Line
    """The value as it is shown."""
    text: Summary
    """Meaning of the value, in at most 280 characters."""


class Score(ScoreData):
    """A number that an analysis gives its subject."""

    kind: Literal["Score"] = "Score"
    """Kind of the entity: Score."""
    id: Id
    """Identifier: it follows from the analysis and the name."""
