"""Bounds that every field of the schema takes its type from.

A number has a least and a greatest value, a text a length, a list a count, free-form JSON a depth. What no type says,
of all texts and numbers alike, is in `check_json`: the API asks it about every request, `stored.py` about every entity.
"""

from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from steelyard_common.types import shorten

INT32, INT64 = 2**31 - 1, 2**63 - 1
"""Largest numbers of Kubernetes' own fields, and of a database's."""
ENTITY_BYTES = 512 * 1024
"""Largest JSON of an entity that a user creates or edits, in bytes."""
STATUS_BYTES = 32 * 1024
"""Room besides that for the status, which the platform writes: an entity at its limit can still be admitted and fail.
"""
FREE_DEPTH = 64
"""Maximum depth of a field of free-form JSON."""
ENTITY_DEPTH = 100
"""Maximum depth of a whole entity: pydantic's parser ends at 200, orjson's writer at 254."""
ARGUMENT_BYTES = 131_071
"""Longest argument or environment variable with which Linux starts a program (MAX_ARG_STRLEN without its NUL)."""
TITLE_LENGTH, SUMMARY_LENGTH = 140, 280
"""Maximum lengths of titles and summaries."""
_FIELD_LENGTH = 200
MESSAGE_LENGTH, REASON_LENGTH = 4096, 255
"""Maximum lengths of a status' message and reason: longer ones are cut, never refused."""


class Unkeepable(ValueError):
    """A value that a part of the platform cannot store; `too_large` if it is only too long."""

    def __init__(self, fault: str, *, too_large: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.too_large = too_large
        self.path: list[str] = []
        """Path of the fault, from the innermost part outwards."""

    @property
    def field(self) -> str:
        """Path of the fault as `schema.jsonSchema.type`; of a long path, the beginning."""
        field = ascii(".".join(reversed(self.path)))[1:-1]
        return field if len(field) <= _FIELD_LENGTH else f"{field[:_FIELD_LENGTH]}..."

    def __str__(self) -> str:
        return f"{self.field}: {self.fault}" if self.path else self.fault


def check_json(value: object, depth: int = ENTITY_DEPTH) -> None:
    """Raise Unkeepable for a value that is nested too deeply, a number beyond 64 bits, a text with NUL or half a
    surrogate pair."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if depth < 1:
            raise Unkeepable(f"is nested deeper than the {FREE_DEPTH} levels that free-form JSON may have")
        for name, child in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                if isinstance(name, str):
                    _check_text(name)
                check_json(child, depth - 1)
            except Unkeepable as error:
                # Collected on the way out: on the way in, a path would be built for every value of every request.
                error.path.append(str(name))
                raise
    # SQLite's INTEGER and orjson end at 64 bits; Python's own numbers do not.
    elif isinstance(value, int) and not -INT64 - 1 <= value <= INT64:
        raise Unkeepable("should be a number of at most 64 bits")
    # JSON has no word for infinity: written as null, it would come back as another value.
    elif isinstance(value, float) and not isfinite(value):
        raise Unkeepable("should be a finite number")


def _check_text(text: str) -> None:
    # PostgreSQL takes no NUL, and neither do environment variables and arguments.
    if "\x00" in text:
        raise Unkeepable("holds the character NUL, which is not allowed")
    try:
        # Python's JSON reader takes half a surrogate pair, which UTF-8 cannot hold.
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise Unkeepable("holds half a surrogate pair, which is not a character") from None


def cut(text: str | None, length: int) -> str | None:
    """Return a text of another program, such as a Pod's last words, cut and cleaned so that it can be stored."""
    if text is None:
        return None
    # By way of UTF-16, in which halves of surrogate pairs that belong together become one character again.
    clean = text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return shorten(clean, length)


# ---- types of fields


def _number(value: object) -> object:
    """JSON knows numbers and booleans apart; Python takes True for 1."""
    if isinstance(value, bool):
        raise ValueError(f"should be a number, not {str(value).lower()}")
    return value


def _argument(text: str) -> str:
    # In bytes, as the kernel counts; the bound of the type is in characters.
    if len(text.encode()) > ARGUMENT_BYTES:
        raise ValueError(f"has more than {ARGUMENT_BYTES} bytes, the most that a program is started with")
    return text


def _http(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} should be an http or https URL")
    return url


def _free_form(value: dict[str, Any]) -> dict[str, Any]:
    check_json(value, FREE_DEPTH)
    return value


NUMBER = BeforeValidator(
    _number
)  # after the bounds in an annotation: pydantic writes those before it into the schema
Count = Annotated[int, Field(ge=1, le=INT32), NUMBER]
"""A whole number of at least one."""
Natural = Annotated[int, Field(ge=0, le=INT32), NUMBER]
"""A whole number of at least zero."""
Seconds = Annotated[int, Field(ge=1, le=INT32), NUMBER]
"""A duration with the bounds of `activeDeadlineSeconds`: no date overflows within 68 years."""
Bytes = Annotated[int, Field(ge=0, le=INT64), NUMBER]
"""Size of a file."""
Float = Annotated[float, NUMBER]
"""A floating-point number, whose type is its bound."""

Id = Annotated[str, Field(max_length=63)]
"""Id of an entity; it becomes the value of a label."""
Word = Annotated[str, Field(max_length=255)]
"""A name, a kind, a tag."""
Line = Annotated[str, Field(max_length=4096)]
"""A path, an address, an option."""
HttpUrl = Annotated[Line, AfterValidator(_http)]
"""An address on the web."""
Title = Annotated[str, Field(max_length=TITLE_LENGTH)]
"""A title, as the published schema bounds it."""
Summary = Annotated[str, Field(max_length=SUMMARY_LENGTH)]
"""A short description, as the published schema bounds it."""
Text = Annotated[str, Field(max_length=ENTITY_BYTES)]
"""Text that people write, or that holds other data; the limit of the whole entity bounds it."""
Argument = Annotated[str, Field(max_length=ARGUMENT_BYTES), AfterValidator(_argument)]
"""Argument with which a program is started."""
Rubric = Annotated[str, Field(max_length=16_384)]
"""Name of a rubric, with its arguments."""
LabelKey = Annotated[str, Field(max_length=317)]
"""Key of a label: a prefix of 253 characters, a slash, a name of 63."""
FreeForm = Annotated[
    dict[str, Any],
    Field(max_length=10_000, json_schema_extra={"x-max-depth": FREE_DEPTH}),
    AfterValidator(_free_form),
]
"""JSON that the platform passes on."""

FEW, MANY = Field(max_length=1000), Field(max_length=10_000)
"""Maximum numbers of items of lists and maps."""
