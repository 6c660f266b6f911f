"""Values of the options of `steelyard train run`."""

import os
import re
from collections.abc import Sequence

from steelyard_common.errors import UsageError

DIGITS = 18
"""Maximum digits of a number in a job; Python itself reads no more than some thousands."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def environment(texts: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE`; `NAME` alone takes the value that it has here. Raises UsageError."""
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {text}: should be NAME=VALUE, or NAME for its value here")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: is not set here; give a value with --env {name}=VALUE")
        variables[name] = value if equals else os.environ[name]
    return variables


def replicas(texts: Sequence[str]) -> dict[str, int]:
    """`PS=2`. Raises UsageError."""
    counts = {}
    for text in texts:
        role, _, count = text.partition("=")
        if not role or not (count.isascii() and count.isdecimal()) or len(count) > DIGITS:
            raise UsageError(f"--replicas {text}: should be TYPE=NUMBER, such as PS=2")
        counts[role] = int(count)
    return counts


def resources(cpus: str | None, memory: str | None, gpus: int | None) -> dict[str, str]:
    """Limits of a container. Raises UsageError."""
    from steelyard_schema.kubernetes import QUANTITY_PATTERN

    for option, text, example in (("--cpus", cpus, "2 or 500m"), ("--memory", memory, "4Gi")):
        if text is not None and not re.fullmatch(QUANTITY_PATTERN, text):
            raise UsageError(f"{option} {text}: should be a quantity such as {example}")
    amounts = {"cpu": cpus, "memory": memory, "nvidia.com/gpu": gpus}
    return {name: str(value) for name, value in amounts.items() if value is not None}


def deadline(text: str | None) -> int | None:
    """Seconds of `90s`, `15m`, `2h30m`. Raises UsageError."""
    from steelyard.cli.eval.option_values import seconds

    return None if text is None else max(round(seconds("--deadline", text)), 1)
