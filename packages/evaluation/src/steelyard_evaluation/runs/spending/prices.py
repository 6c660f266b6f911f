"""Prices of a model's tokens: part of a request, for the model and for each judge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PriceSpec:
    """Prices per million tokens, in any currency."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    prompt: float
    completion: float
