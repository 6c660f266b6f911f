"""A cluster that is away while it is watched: said once, and not at every try."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from steelyard.cli.train.screen import CLEAR

WATCHES = "steelyard_kube.informer"
AGAIN_SECONDS = 60.0


class _Once(logging.Handler):
    """One line in a minute, whatever number of tries fail."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() - self._told < AGAIN_SECONDS:
            return
        self._told = time.monotonic()
        clear = CLEAR if sys.stderr.isatty() else ""
        print(f"{clear}the cluster does not answer; trying again; the jobs continue", file=sys.stderr)


@contextmanager
def outages_told() -> Iterator[None]:
    """Report outages of this process's watches once, while the context lasts."""
    logger, handler = logging.getLogger(WATCHES), _Once()
    # The root logger would print every try with its traceback between the lines of the job.
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
