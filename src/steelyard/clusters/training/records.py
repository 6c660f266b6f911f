"""Records of replicas and failures in a job's status, and the words for how a container ended."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json
from steelyard_kube.times import parse_optional_time

SHELL_SIGNAL = 128
"""A program that signal N ended has the exit code 128 + N."""
UNKNOWN_EXIT = 0xBEEF
"""The value of an exit code that is not known, as in v1."""
SIGNALS = range(SHELL_SIGNAL + 1, SHELL_SIGNAL + signal.NSIG)


@dataclass(frozen=True)
class ReplicaView:
    """One replica, as the job's status has it."""

    role: str
    index: int
    phase: str = "Pending"
    attempt: int = 0
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    started: datetime | None = None

    @property
    def name(self) -> str:
        return f"{self.role.lower()}-{self.index}"


@dataclass(frozen=True)
class FailureView:
    """One replica's failure."""

    role: str
    index: int
    attempt: int
    exit_code: int | None
    reason: str
    message: str
    """The program's last words; without any, the last lines of its log."""
    action: str
    time: datetime | None
    pod: str = ""
    counted: bool = True
    """True where the failure used up a restart, or the last of them."""
    disruption: bool = False
    """True where something from outside ended the replica."""
    consequence: bool = False
    """True where it failed only because another had; the restart for that one included it."""

    @property
    def name(self) -> str:
        return f"{self.role.lower()}-{self.index}"

    @property
    def told(self) -> str:
        """Return `description`; clients of earlier versions ask for it by this name."""
        return self.description

    @property
    def description(self) -> str:
        """The end in words, such as `ended with exit code 1` or `was killed (SIGKILL, exit code 137)`."""
        return ending(self.exit_code, self.reason)


def ending(exit_code: int | None, reason: str = "") -> str:
    """Return how a container ended, in words."""
    code = f"exit code {exit_code}" if exit_code is not None else ""
    if reason == "OOMKilled":
        return f"ran out of memory ({code or reason})"
    if reason not in {"", "Error", "Completed"} and not exit_code:
        return f"ended: {reason}"
    if exit_code is not None and exit_code in SIGNALS:
        return f"was killed ({_signal(exit_code - SHELL_SIGNAL)}, {code})"
    if reason not in {"", "Error", "Completed"}:
        return f"ended with {code} ({reason})"
    return f"ended with {code}" if code else "failed"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def replica_of_status(written: Json) -> ReplicaView:
    return ReplicaView(
        role=str(written["type"]),
        index=int(written["index"]),
        phase=str(written.get("phase") or "Pending"),
        attempt=int(written.get("attempt") or 0),
        restarts=int(written.get("restarts") or 0),
        exit_code=_exit_code(written),
        reason=str(written.get("reason") or ""),
        node=str(written.get("node") or ""),
        started=parse_optional_time(written.get("startedAt")),
    )


def failure_of_status(written: Json) -> FailureView:
    return FailureView(
        role=str(written.get("type") or ""),
        index=int(written.get("index") or 0),
        attempt=int(written.get("attempt") or 0),
        exit_code=_exit_code(written),
        reason=str(written.get("reason") or ""),
        message=str(written.get("message") or ""),
        action=str(written.get("action") or ""),
        time=parse_optional_time(written.get("time")),
        pod=str(written.get("pod") or ""),
        counted=bool(written.get("counted", True)),
        disruption=bool(written.get("disruption")),
        consequence=bool(written.get("consequence")),
    )


def _exit_code(written: Json) -> int | None:
    code = written.get("exitCode")
    return None if code == UNKNOWN_EXIT else code


def lines(message: str) -> Iterator[str]:
    """The lines of a message that have something in them."""
    return (line.rstrip() for line in message.splitlines() if line.strip())
