"""Labels as Kubernetes writes them: the keys and values that a patch may have. Requests and commands share them."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from steelyard_schema.base import LABEL_KEY_PATTERN
from steelyard_schema.bounds import LabelKey

KEY_LENGTH, VALUE_LENGTH = 317, 63
_KEY = re.compile(LABEL_KEY_PATTERN)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def check_labels(labels: dict[str, str | None]) -> dict[str, str | None]:
    """Return the patch; None removes a label. Raises ValueError, which names the key."""
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or len(key) > KEY_LENGTH:
            raise ValueError(f"key {key!r} should be a Kubernetes label key, such as example.com/team")
        if value is not None and not _VALUE.fullmatch(value):
            raise ValueError(
                f"{key}: {value!r} should be at most {VALUE_LENGTH} letters, digits, '-', '_' and '.', "
                "a letter or a digit first and last"
            )
    return labels


Labels = Annotated[
    dict[LabelKey, Annotated[str, Field(max_length=VALUE_LENGTH)] | None],
    Field(max_length=1000),
    AfterValidator(check_labels),
]
