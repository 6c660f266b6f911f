"""When a request is sent again, and after how long: exponential back-off with full jitter."""

import random
from dataclasses import dataclass

import httpx

RETRIED = frozenset({408, 429, 502, 503, 504})


@dataclass(frozen=True)
class Retries:
    """`tries` in all; pauses from `first` seconds, doubling up to `longest`."""

    tries: int = 4
    first: float = 0.5
    longest: float = 8.0

    def pause(self, number: int, response: httpx.Response | None) -> float | None:
        """Seconds before try `number` + 1, counted from 1; None when there is none any more."""
        if number >= self.tries or (response is not None and response.status_code not in RETRIED):
            return None
        asked = response.headers.get("retry-after", "") if response is not None else ""
        if asked.replace(".", "", 1).isdigit():
            return min(float(asked), 60.0)
        return random.uniform(0, min(self.first * 2 ** (number - 1), self.longest))
