"""Regular expressions that users write, searched in time that grows with the text alone: an expression that takes
for ever would hold up every job. They are those of Rust and RE2: no look-around, no back-references.
"""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@lru_cache(maxsize=256)
def _searcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def check(pattern: str) -> None:
    """Raises ValueError for what is no regular expression."""
    try:
        _searcher(pattern)
    except SchemaError as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
        raise ValueError(said.removeprefix("SchemaError: ").removeprefix("error: ")) from None


def found(pattern: str, text: str) -> bool:
    """Whether the expression matches somewhere in the text."""
    return _searcher(pattern).isinstance_python(text)
