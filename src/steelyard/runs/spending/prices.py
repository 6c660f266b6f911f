"""What the tokens of a model cost: part of a request, for the model and for each judge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PriceSpec:
    """What a million tokens cost, in any currency."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    prompt: float
    completion: float
