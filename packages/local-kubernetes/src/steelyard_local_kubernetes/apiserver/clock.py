"""Time and chance of the server, given from outside so that tests may fix them."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from steelyard_kube.times import format_time

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # without vowels: no words come out


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    now: Callable[[], datetime] = _now
    rng: random.Random = field(default_factory=random.SystemRandom)

    def stamp(self) -> str:
        return format_time(self.now())

    def uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def suffix(self) -> str:
        number, letters = self.rng.getrandbits(64), []  # at once: each number is a call of the system
        for _ in range(5):
            number, letter = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[letter])
        return "".join(letters)
