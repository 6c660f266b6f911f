"""How many calls a replica gets at once: as many as was asked, or as many as it turns out to take."""

from dataclasses import dataclass

DEFAULT_MOST = 64
AUTO_MOST = 256
AUTO_START = 16


@dataclass(frozen=True)
class Concurrency:
    """What was asked: at most `most` calls on each replica; `adaptive` finds out how many of them it takes."""

    most: int = DEFAULT_MOST
    adaptive: bool = False
    start: int | None = None
    """How many an adaptive one begins with; None is `most`."""

    def __post_init__(self) -> None:
        if self.most < 1 or (self.start is not None and not 1 <= self.start <= self.most):
            raise ValueError(f"a concurrency of {self.most} that starts at {self.start} is none")


AUTO = Concurrency(AUTO_MOST, adaptive=True, start=AUTO_START)
"""Where nobody has said how many."""


class Limit:
    """How many calls one replica may get now."""

    def __init__(self, concurrency: Concurrency) -> None:
        if concurrency.adaptive:
            raise NotImplementedError("adaptive concurrency")
        self.value = concurrency.most
