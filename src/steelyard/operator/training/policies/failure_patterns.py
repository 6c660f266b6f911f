"""Regular expressions of users' failure rules, searched in time that grows with the text alone.

An expression that takes for ever would hold up every job. The syntax is that of Rust and RE2: no look-around, no
back-references.
"""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@lru_cache(maxsize=256)
def _searcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def check(pattern: str) -> None:
    """Raise ValueError if the pattern is not a regular expression."""
    try:
        _searcher(pattern)
    except SchemaError as error:
        message = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
        raise ValueError(message.removeprefix("SchemaError: ").removeprefix("error: ")) from None


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches somewhere in the text."""
    return _searcher(pattern).isinstance_python(text)
