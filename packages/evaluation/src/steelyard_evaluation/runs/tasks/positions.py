"""YAML as data that remembers where everything stood in the file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from steelyard_common.bounded_yaml import SAFE, BadYaml, check
from steelyard_common.types import JsonValue

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class TextPosition:
    """Line and column, from 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong, where, and what would be right."""

    place: TextPosition
    path: Path
    message: str

    def __str__(self) -> str:
        name = field_name(self.path)
        return f"{self.place.line}:{self.place.column}: {name + ': ' if name else ''}{self.message}"


def field_name(path: Path) -> str:
    """`limits.timeout`, `rubrics[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, the positions of its parts, and its faults."""

    data: JsonValue = None
    values: dict[Path, TextPosition] = field(default_factory=dict)
    keys: dict[Path, TextPosition] = field(default_factory=dict)
    blocks: dict[Path, int] = field(default_factory=dict)
    """First lines of texts; the text of `|` begins on the line below."""
    faults: tuple[Fault, ...] = ()

    def place(self, path: Path) -> TextPosition:
        """Return the position of the value at `path`, or of the nearest thing around it."""
        while path not in self.values and path:
            path = path[:-1]
        return self.values.get(path, TextPosition())

    def key(self, path: Path) -> TextPosition:
        """Return the position of the name before the value."""
        return self.keys.get(path) or self.place(path)


_LONG = 1 << 16
"""Characters below which no text without aliases and depth takes long; what is wrong with it then has a place."""


def read(text: str) -> Document:
    """Every part of `text` with its place. Never raises: what is wrong is in `faults`."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = TextPosition(before.count("\n") + 1, error.position - before.rfind("\n"))
        return Document(faults=(Fault(place, (), f"is not YAML: {error.reason}: {chr(error.character)!r}"),))
    try:
        faults = tuple(_excesses(text))
        if faults:
            return Document(faults=faults)
        node = loader.get_single_node()
        if node is None:
            return Document()
        document = Document()
        doubles = tuple(_walk(node, (), document))
        # After the walk, which finds names that are given twice: the constructor lets the last one win
        # without a word.
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = TextPosition() if mark is None else TextPosition(mark.line + 1, mark.column + 1)
        said = ", ".join(part for part in (error.context, error.problem) if part)
        return Document(faults=(Fault(place, (), f"is not YAML: {said}"),))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Document(faults=(Fault(TextPosition(), (), f"is not YAML: {first}"),))
    finally:
        loader.dispose()
    return Document(data, document.values, document.keys, document.blocks, doubles)


def _excesses(text: str) -> Iterator[Fault]:
    """Faults of a text that would take long to be read, found by libyaml; its errors are left to the other parser."""
    try:
        check(text)
    except BadYaml as error:
        # A number that is only long has a place of its own, once the text is read.
        if len(text) > _LONG or "depth" in str(error):
            yield Fault(TextPosition(), (), f"is not YAML: {error}")
            return
    except yaml.YAMLError:
        return
    yield from _aliases(text)


def _aliases(text: str) -> Iterator[Fault]:
    """An alias stands for text elsewhere: a place would be no answer to where, and a few can be endlessly much."""
    for token in yaml.scan(text, Loader=SAFE):
        if isinstance(token, yaml.AliasToken):
            place = TextPosition(token.start_mark.line + 1, token.start_mark.column + 1)
            yield Fault(place, (), f"*{token.value}: aliases are not read here; write it out")


def _walk(node: yaml.Node, path: Path, document: Document) -> Iterator[Fault]:
    line, column = node.start_mark.line, node.start_mark.column
    document.values[path] = TextPosition(line + 1, column + 1)
    if isinstance(node, yaml.ScalarNode):
        document.blocks[path] = line + (2 if node.style in {"|", ">"} else 1)
    elif isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            yield from _walk(child, (*path, number), document)
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            place = TextPosition(key.start_mark.line + 1, key.start_mark.column + 1)
            inner = (*path, name)
            if inner in document.keys:
                first = document.keys[inner].line
                yield Fault(place, inner, f"is given twice, first on line {first}")
            document.keys[inner] = place
            yield from _walk(child, inner, document)
