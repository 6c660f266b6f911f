"""Settings of fault tolerance that an AppWrapper's annotations may give, with AppWrapper's own defaults."""

import re
from dataclasses import dataclass

from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations

_PREFIX = "workload.codeflare.dev.appwrapper/"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]*\.?[0-9]+)(h|ms|us|µs|ns|m|s)")


@dataclass(frozen=True)
class Settings:
    """Periods in seconds, and limits."""

    admission: float = 60.0  # until the Pods are there
    warmup: float = 300.0  # until they are ready
    failure: float = 60.0  # from a failure to the reset
    retry_pause: float = 90.0  # between the end of a reset and the next start
    retry_limit: int = 3
    deletion_on_failure: float = 0.0  # from the phase Failed to the removal of the resources
    success_ttl: float = (
        7 * 86_400.0
    )  # from the start to the removal of the resources of one that has succeeded
    terminal: frozenset[int] = frozenset()  # exit codes after which nothing is tried again
    retryable: frozenset[int] = frozenset()  # if any is given, others end the AppWrapper


def read_settings(wrapper: Json) -> Settings:
    """Read the annotations. A value that cannot be read counts as not given, as with AppWrapper."""
    annotated = {
        key.removeprefix(_PREFIX): value
        for key, value in read_annotations(wrapper).items()
        if key.startswith(_PREFIX)
    }

    def seconds(name: str, default: float) -> float:
        value = duration(annotated.get(name, ""))
        return default if value is None else value

    def codes(name: str) -> frozenset[int]:
        return frozenset(int(code) for code in annotated.get(name, "").split(",") if code.strip().isdecimal())

    limit = annotated.get("retryLimit", "")
    return Settings(
        admission=seconds("admissionGracePeriodDuration", Settings.admission),
        warmup=seconds("warmupGracePeriodDuration", Settings.warmup),
        failure=seconds("failureGracePeriodDuration", Settings.failure),
        retry_pause=seconds("retryPausePeriodDuration", Settings.retry_pause),
        retry_limit=int(limit) if limit.isdecimal() else Settings.retry_limit,
        deletion_on_failure=seconds("deletionOnFailureGracePeriodDuration", Settings.deletion_on_failure),
        success_ttl=seconds("successTTLDuration", Settings.success_ttl),
        terminal=codes("terminalExitCodes"),
        retryable=codes("retryableExitCodes"),
    )


def duration(text: str) -> float | None:
    """Return the seconds of a duration in Go's form, such as 1h30m; None for any other text."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
