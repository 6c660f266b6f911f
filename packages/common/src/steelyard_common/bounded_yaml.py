"""YAML of strangers, read within bounds that are checked before anything is made of it.

A few lines of YAML can stand for gigabytes: aliases and merge keys double what they name, a directive gives each tag
a long prefix, a number to the base of 60 takes a time that grows with its square. The parser's events tell the size
of what would be made; only a text within the limits is loaded. Servers read what users send by it.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(
    r"[-+]?(0x[0-9a-fA-F_]+|0b[01_]+|[0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9][0-9_:.]*([eE][-+]?[0-9]+)?)"
)
_LONGEST_NUMBER = 256  # characters
_TEXTS = frozenset({"!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:binary"})
_PER_BYTE, _SPARE = 2, 100


class BadYaml(ValueError):
    """A text that is not YAML, or that stands for more than its reader takes."""


@dataclass(frozen=True)
class Limits:
    """Limits of a document, counted as if every alias were written out."""

    nodes: int = 100_000
    """Most texts, numbers, lists and objects; never more than two for each byte of the text."""
    size: int = 3 << 20
    """Most bytes of its texts, numbers and tags."""
    depth: int = 128
    """Most levels of lists and objects."""


LIMITS = Limits()


def load(text: str | bytes, loader: Any = SAFE, limits: Limits = LIMITS) -> Any:
    """Return the only document of a text. Raises BadYaml for a text beyond the limits, yaml.YAMLError for a fault."""
    check(text, loader, limits)
    return yaml.load(text, Loader=loader)


def load_all(text: str | bytes, loader: Any = SAFE, limits: Limits = LIMITS) -> list[Any]:
    """Return all documents of a text, which are within the limits together. Raises as `load` does."""
    check(text, loader, limits)
    return list(yaml.load_all(text, Loader=loader))


def fault_text(error: Exception) -> str:
    """Return what an error of reading YAML says, with its place, in one line."""
    match error:
        case yaml.MarkedYAMLError():
            mark = error.problem_mark or error.context_mark
            said = " ".join(filter(None, [error.context, error.problem]))
            return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else said
        case UnicodeDecodeError():
            return f"it is not text in UTF-8: {error.reason} at byte {error.start}"
        case RecursionError():
            return "its lists and objects are too deep"
        case _:
            return " ".join(str(error).partition("\n")[0].split())


def check(text: str | bytes, loader: Any = SAFE, limits: Limits = LIMITS) -> None:
    """Raise BadYaml for a text that stands for more than the limits allow, yaml.YAMLError for one that has a fault."""
    counter = _Counter(limits, min(limits.nodes, _PER_BYTE * len(text) + _SPARE))
    for event in yaml.parse(text, Loader=loader):
        counter.count(event)


@dataclass
class _Size:
    nodes: int = 0
    bytes: int = 0


@dataclass
class _Counter:
    """Counts what the events so far stand for, and what each anchor does."""

    limits: Limits
    nodes: int
    total: _Size = field(default_factory=_Size)
    anchors: dict[str, _Size | None] = field(default_factory=dict)  # None: its node has not ended
    opened: list[tuple[str | None, _Size]] = field(default_factory=list)  # anchor, and the total before it

    def count(self, event: Any) -> None:
        match event:
            case yaml.AliasEvent():
                self._add(self._find_anchor(event.anchor or ""))
            case yaml.ScalarEvent():
                _check_scalar(event)
                size = _Size(1, len(event.value) + len(event.tag or ""))
                self._add(size)
                if event.anchor is not None:
                    self.anchors[event.anchor] = size
            case yaml.CollectionStartEvent():
                self.opened.append((event.anchor, _Size(self.total.nodes, self.total.bytes)))
                if event.anchor is not None:
                    self.anchors[event.anchor] = None
                if len(self.opened) > self.limits.depth:
                    raise BadYaml(
                        f"exceeded max depth: at most {self.limits.depth} levels of lists and objects are taken here"
                    )
                self._add(_Size(1, len(event.tag or "")))
            case yaml.CollectionEndEvent():
                anchor, before = self.opened.pop()
                if anchor is not None:
                    total = self.total
                    self.anchors[anchor] = _Size(total.nodes - before.nodes, total.bytes - before.bytes)
            case yaml.DocumentStartEvent():
                self.anchors.clear()

    def _find_anchor(self, anchor: str) -> _Size:
        size = self.anchors.get(anchor, _Size(1))  # an unknown one is the loader's to refuse
        if size is None:
            raise BadYaml(f"the alias *{anchor[:100]} stands inside what it names")
        return size

    def _add(self, size: _Size) -> None:
        self.total.nodes += size.nodes
        self.total.bytes += size.bytes
        if self.total.nodes > self.nodes:
            if self.nodes == self.limits.nodes:
                raise BadYaml(f"a document has at most {self.nodes} texts, numbers, lists and objects")
            raise BadYaml("document contains excessive aliasing")
        if self.total.bytes > self.limits.size:
            raise BadYaml(f"a document has at most {self.limits.size} bytes once its aliases are written out")


def _check_scalar(event: Any) -> None:
    """Refuse a long number: to read it takes a time that grows with the square of its length."""
    if len(event.value) <= _LONGEST_NUMBER:
        return
    plain = event.tag is None and not event.style
    typed = event.tag is not None and event.tag not in _TEXTS
    if typed or (plain and _NUMBER.fullmatch(event.value)):
        raise BadYaml(f"a number has at most {_LONGEST_NUMBER} characters; this one has {len(event.value)}")
