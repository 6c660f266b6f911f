"""Errors in what a person asks of a training job, each in one line that says what would be right.

They are those of the whole cluster client, with a few for jobs alone.
"""

import re
from collections.abc import Iterable
from typing import Any

from steelyard.clusters.errors import BadConfig, Fault, NotFound, WaitTimeout
from steelyard_common.errors import UsageError

_FLAG = re.compile(r"--(?P<name>[a-z-]+)(?P<rest>.*)", re.DOTALL)


class BadJob(BadConfig):
    """The job cannot be made as it is asked for. Its message names flags of the command line, `faults` the fields."""

    def __init__(self, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__("", [Fault("", message)])
        self.faults = tuple(faults) or (_fault(message),)


class NoSuchJob(NotFound, UsageError):
    """No job has this name, or more than one has it."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message, 404, "NotFound")


class JobDeleted(NotFound):
    """The job was deleted while the caller waited for it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 404, "NotFound")


class WaitedTooLong(WaitTimeout):
    """The job had not ended in the time given."""

    def __init__(self, message: str, status: Any = None) -> None:
        super().__init__(message, status)


def _fault(message: str) -> Fault:
    flag = _FLAG.fullmatch(message)
    return Fault(flag["name"].replace("-", "_"), flag["rest"].strip(": ")) if flag else Fault("", message)
