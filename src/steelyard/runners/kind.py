"""The description of a runner kind: everything that the rest of Steelyard knows about a program that serves models."""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Variant = Literal["cpu", "cuda"]
GIB = 1 << 30
_ASIDE = r'"[A-Z]+ \S+ HTTP/[\d.]+"|Warning: |^\s*warnings\.warn\('
"""Pattern of lines that say nothing of a program's end: those of one request, and Python's warnings."""


@dataclass(frozen=True)
class Serving:
    """One server that is asked for."""

    model: str
    """Path of a folder or a file, or a name that the program finds by itself."""
    name: str
    """Name of the model in requests."""
    host: str
    port: str
    """Number of the port, or a placeholder that is filled in later."""
    memory: int | None = None
    """Bytes that the whole server may take; None where no bound is set."""
    gpus: int = 0
    weights: int = 0
    """Bytes of the weights; 0 where they are not known."""
    precision: str = ""
    """Type of the weights' numbers, such as float32, where it is known."""
    root_path: str = ""
    """Prefix of paths that the server should know as its own."""
    arguments: tuple[str, ...] = ()
    """Arguments of the user. They win over those that are made here."""


@dataclass(frozen=True)
class ModelFiles:
    """A model that a kind understands: its path, the size of its weights, and what its configuration says."""

    path: Path
    weights: int
    precision: str = ""
    parts: tuple[Path, ...] = ()
    """Files of the model, where a folder holds others too; none stand for the whole folder."""


@dataclass(frozen=True)
class Requirements:
    """An environment of a kind: its lock in `locks/`, the room that it takes, settings of builds from source."""

    lock: str
    size: int
    """Bytes on disk, roughly."""
    build_settings: tuple[str, ...] = ()
    """Settings `KEY=VALUE` for packages that are built from source."""
    provides: str = ""
    """Distribution of another name, `NAME+SUFFIX`, under which the program asks for its own version."""


@dataclass(frozen=True)
class Program:
    """A program that is installed into an environment of its own."""

    name: str
    """Name in `--runner` and `steelyard runners`."""
    title: str
    """Name as its authors write it."""
    serves: str
    """Description of what it serves, for people."""
    package: str
    """Distribution whose version counts as the version of the program."""
    module: str
    """Module that can be imported where the program is installed."""
    environments: Mapping[Variant, Requirements]

    @property
    def image(self) -> str:
        """Name of its image, below the host `localhost`."""
        return f"steelyard/runner-{self.name.replace('.', '-')}"

    @property
    def install_command(self) -> str:
        return f"steelyard runners install {self.name}"


@dataclass(frozen=True)
class RunnerKind(Program):
    """One program that serves models."""

    looked_for: str
    """The files by which a folder is known to be for it, for people."""
    find_model: Callable[[Path], ModelFiles | None]
    """Finds the model in a folder, or takes a file; None where there is nothing that it understands."""
    command: Callable[[Serving], list[str]]
    arguments: Callable[[Serving], list[str]]
    """Makes the arguments without the user's own."""
    base_memory: int
    """Bytes that the program takes besides weights and cache."""
    least_cache: int
    """Bytes of the smallest cache with which it is of use."""
    ready_path: str
    """Path that answers with 200 once requests are served."""
    stages: Mapping[str, str]
    """Progress while it starts: a pattern of its log's lines, and the message for people."""
    error_line: str
    """Pattern of the line of its log that says why it ended."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it needs."""
    sizes_cache: bool = False
    """True where the cache is made as large as the server's memory allows."""
    version_path: str = ""
    """Path at which a running server says its version; empty where it does not."""
    kind: str = "container"
    """`runner.kind` of a service: `container`, unless the published schema has a kind for this program."""

    def command_line(self, serving: Serving) -> tuple[list[str], list[str]]:
        """Make command and arguments; options that the user gives are left out of ours."""
        return self.command(serving), [
            *without_options(self.arguments(serving), serving.arguments),
            *serving.arguments,
        ]

    def stage(self, line: str) -> str | None:
        """Return what a line of the log says about the start; None for most."""
        for pattern, text in self.stages.items():
            if match := re.search(pattern, line):
                return match.expand(text)
        return None

    def last_error(self, lines: Sequence[str], killed_by: int = 0) -> str:
        """Return the line that says why the program ended: the first of the last error, else the last line.

        Of a program that a signal ended, only an error says why; of one that signal 9 ended, nothing that it wrote.
        """
        if killed_by == signal.SIGKILL:
            return ""
        errors = [line for line in lines if re.search(self.error_line, line)]
        texts = [re.sub(self.error_line, "", line, count=1).strip() for line in errors]
        written = [line.strip() for line in lines if line.strip() and not re.search(_ASIDE, line)]
        otherwise = written[-1] if written and not killed_by else ""
        return next((text for text in texts if text), otherwise)

    def cache_bytes(self, serving: Serving) -> int:
        """Return the bytes for the cache that the server's memory leaves."""
        if serving.memory is None:
            return self.least_cache
        return max(self.least_cache, serving.memory - serving.weights - self.base_memory)

    def estimate_memory(self, serving: Serving) -> int:
        """Estimate the bytes that the server takes, with the weights in memory once."""
        return self.base_memory + serving.weights + self.cache_bytes(serving)


def without_options(arguments: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the arguments without the options that stand among the others, and without their values."""
    options = {_option(argument) for argument in others if argument.startswith("-")}
    kept: list[str] = []
    dropping = False
    for argument in arguments:
        if argument.startswith("-"):
            dropping = _option(argument) in options
        if not dropping:
            kept.append(argument)
    return kept


def find_option(arguments: Sequence[str], name: str) -> str:
    """Return the value of an option, written as `--name value` or `--name=value`; of several the last, which counts."""
    value = ""
    for number, argument in enumerate(arguments):
        if argument.startswith("-") and _option(argument) == name:
            after = arguments[number + 1] if number + 1 < len(arguments) else ""
            value = argument.partition("=")[2] if "=" in argument else after
    return value


def _option(argument: str) -> str:
    """Return the name of an option, however it is written: `--a_b=1` is `--a-b`."""
    return argument.partition("=")[0].replace("_", "-")
