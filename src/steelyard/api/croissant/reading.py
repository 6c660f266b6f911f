"""Reads the facts of a Croissant file: JSON-LD in the form that the specification writes. Pure.

No term is looked up on the network: terms are known by their names, and unknown ones are left out and reported. If a
part contradicts the dataset's own files, the whole file is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from steelyard.api.croissant.facts import Facts
from steelyard_common.types import shorten
from steelyard_schema.faults import faults_text

VERSIONS = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/1.1")
_PREFIXES = (
    *("https://schema.org/", "http://schema.org/", "schema:", "sc:"),
    *("http://mlcommons.org/croissant/", "cr:", "http://purl.org/dc/terms/", "dct:"),
)
_STRUCTURE = frozenset({"@context", "@type", "@id", "@language", "conformsTo", "distribution", "recordSet"})
MOST_LEFT_OUT, MOST_SAID = 100, 300
"""Most parts that an answer says were left out, and most characters of each."""
_TEXTS = ("name", "description", "citeAs", "url", "version", "datePublished")
_LISTS = ("license", "creator", "keywords")


class NotCroissant(ValueError):
    """A file that is not Croissant, or not of this dataset; the text names the part."""


@dataclass
class Reading:
    """Facts that were taken of a file, and parts that were left out, each with the reason."""

    facts: Facts
    left_out: list[str] = field(default_factory=list)


def read(content: Mapping[str, Any], columns: Sequence[str], digests: Mapping[str, str]) -> Reading:
    """Return the facts of a Croissant file for a dataset with these columns, and SHA-256 by path. Raises NotCroissant.

    Without columns, since the dataset has no schema yet, descriptions of all columns are taken.
    """
    parts = {_short(name): value for name, value in content.items()}
    _check_kind(parts)
    _check_files(parts, digests)
    left_out: list[str] = []
    taken: dict[str, Any] = {name: _text(parts[name]) for name in _TEXTS if name in parts}
    taken |= {name: list(_texts(parts[name])) for name in _LISTS if name in parts}
    taken["fields"] = dict(_columns(parts, columns, left_out))
    left_out += [
        f"{name}: is not a part that is kept" for name in parts if name not in {*_STRUCTURE, *_TEXTS, *_LISTS}
    ]
    for name in [name for name, value in taken.items() if value is None]:
        left_out.append(f"{name}: is not text")
        del taken[name]
    try:
        facts = Facts.parse(taken)
    except ValidationError as error:
        raise NotCroissant(faults_text(error)) from error
    if facts.name is None:
        raise NotCroissant("name: is missing")
    return Reading(facts, _shorten(left_out))


def _shorten(left_out: Sequence[str]) -> list[str]:
    """Return the first parts that were left out, cut: a file of two bytes a part would get an answer of megabytes."""
    shown = [shorten(part, MOST_SAID) for part in left_out[:MOST_LEFT_OUT]]
    more = len(left_out) - len(shown)
    return [*shown, *([f"{more} more parts"] if more else [])]


def full_page(facts: Facts) -> str:
    """Return the facts as a page of Markdown, for the entity's documentation."""
    lines = [facts.description or ""]
    pairs = {
        "License": ", ".join(facts.license),
        "Made by": ", ".join(facts.creator),
        "Version": facts.version,
        "Published": facts.datePublished,
        "Page": facts.url,
        "Keywords": ", ".join(facts.keywords),
    }
    lines += ["\n".join(f"* {name}: {value}" for name, value in pairs.items() if value)]
    if facts.citeAs:
        lines += ["## Citation", "\n".join(f"    {line}" for line in facts.citeAs.splitlines())]
    if facts.fields:
        lines += [
            "## Columns",
            "\n".join(f"* `{name}`: {text}" for name, text in facts.fields.items() if text),
        ]
    return "\n\n".join(line for line in lines if line)


def _check_kind(parts: Mapping[str, Any]) -> None:
    kinds = parts.get("@type")
    if "Dataset" not in [_short(kind) for kind in (kinds if isinstance(kinds, list) else [kinds])]:
        raise NotCroissant("@type: should be sc:Dataset")
    conforms = list(_texts(parts.get("conformsTo")))
    if not any(version in VERSIONS for version in conforms):
        said = ", ".join(conforms[:3])[:MOST_SAID]
        raise NotCroissant(f"conformsTo: {said or 'none'} should be {' or '.join(VERSIONS)}")


def _check_files(parts: Mapping[str, Any], digests: Mapping[str, str]) -> None:
    """Raise NotCroissant for a file that the dataset has with another SHA-256."""
    for entry in _objects(parts.get("distribution")):
        said = {_short(name): value for name, value in entry.items()}
        path, digest = said.get("contentUrl"), said.get("sha256")
        if isinstance(path, str) and isinstance(digest, str) and digests.get(path, digest) != digest.lower():
            raise NotCroissant(f"distribution: {path} has the SHA-256 {digests[path]}, and not {digest}")


def _columns(
    parts: Mapping[str, Any], columns: Sequence[str], left_out: list[str]
) -> Iterator[tuple[str, str]]:
    for records in _objects(parts.get("recordSet")):
        fields = {_short(name): value for name, value in records.items()}.get("field")
        for entry in _objects(fields):
            said = {_short(name): value for name, value in entry.items()}
            column = _column(said, columns)
            if column is None:
                left_out.append("recordSet: a field names no column")
            elif columns and column not in columns:
                left_out.append(f"recordSet: {column}: the dataset has no such column")
            else:
                yield column, _text(said.get("description")) or ""


def _column(said: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    """Return the column of a field: that of its source, else its own name, which may begin with the record set's."""
    source = said.get("source")
    extract = source.get("extract") if isinstance(source, dict) else None
    column = extract.get("column") if isinstance(extract, dict) else None
    name = column or said.get("name")
    if not isinstance(name, str) or name in columns:
        return name if isinstance(name, str) else None
    return name.rpartition("/")[2]


def _short(name: object) -> str:
    """Return a term without its vocabulary."""
    text = str(name)
    prefix = next((prefix for prefix in _PREFIXES if text.startswith(prefix)), "")
    return text.removeprefix(prefix)


def _text(value: object) -> str | None:
    return next(_texts(value), None)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value: texts and numbers, values with a language, and things with a name or an address."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        parts = {_short(name): part for name, part in value.items()}
        known = (parts.get(name) for name in ("@value", "name", "url", "@id"))
        yield from _texts(next((part for part in known if part), None))


def _objects(value: object) -> Iterator[dict[str, Any]]:
    parts = value if isinstance(value, list) else [value]
    yield from (part for part in parts if isinstance(part, dict))
