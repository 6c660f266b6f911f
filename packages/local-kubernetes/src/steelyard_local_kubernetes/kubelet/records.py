"""Records of a Pod's folder: the only memory of the kubelet, read again after every restart.

`<pods>/<uid>/pod.json` is written once (name, address), `failed.json` when the Pod as a whole has failed; for
each container `<container>/<n>.json` is the intent to run it for the n-th time, `<n>.started` and `<n>.exited`
are the shim's, `<n>.reason` why the kubelet killed it. A run whose record exists is never started again.
"""

import fcntl
import logging
import os
import shutil
import time
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import orjson

from steelyard_common import processes
from steelyard_common.lock import is_held
from steelyard_common.types import Json
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.kubelet import shim, versions

MESSAGE_LIMIT = 4096
TAIL_LIMIT, TAIL_LINES = 2048, 80
LOST = "ContainerStatusUnknown"
OUT_OF_MEMORY = "OOMKilled"
OPEN = 0o777
"""Mode of an emptyDir, in which all users of a Pod's containers may write."""
_EXITED = ("startedAt", "finishedAt", "exitCode", "signal", "reason", "message")

log = logging.getLogger(__name__)
current_boot = cache(processes.boot_id)


@dataclass(frozen=True)
class Run:
    """One run of a container, as far as it has come."""

    attempt: int
    state: Literal["intended", "running", "exited"]
    started_at: str = ""
    finished_at: str = ""
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0  # 0 unless running
    shim: int = 0
    shim_start: int = 0

    @property
    def succeeded(self) -> bool:
        return self.state == "exited" and self.exit_code == 0


@dataclass(frozen=True)
class Failure:
    """The reason why the Pod as a whole has failed; `disruption` when that says nothing about its program."""

    reason: str
    message: str
    disruption: bool = False


@dataclass(frozen=True)
class Sandbox:
    """Facts that are decided once about a Pod."""

    namespace: str
    name: str
    uid: str
    ip: str
    started_at: str


DAMAGED = Failure(LOST, "The record of the Pod's failure is damaged.", disruption=True)


def _read(path: str, *keys: str) -> Json | None:
    """The record; None where there is none, and an empty one where it is damaged or lacks one of the keys.

    A damaged record is said to have been one, and nothing is believed of it: a run is not started again for it.
    """
    try:
        with open(path, "rb") as file:
            record = orjson.loads(file.read())
    except FileNotFoundError:
        return None
    except ValueError:
        record = {}
    if isinstance(record, dict) and record.keys() >= set(keys) and record:
        return record
    log.warning("%s: is damaged; what it said counts as lost", path)
    return {}


class PodFolder:
    """One Pod's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = str(path)  # of which the records' paths are made at each check, faster than of a Path

    def volume(self, pod: Json, name: str) -> Path:
        """Return the folder of one of the Pod's volumes."""
        # A container may be called `volumes`, and its runs lie in a folder of that name.
        taken = any(container["name"] == "volumes" for container in list_containers(pod["spec"]))
        return self.path / (".volumes" if taken else "volumes") / name

    def remove_shown_volumes(self) -> None:
        """Remove the volumes that show objects of the API, with the values of Secrets and tokens among them.

        The Pod's manifest need not be known: such a volume is made as a version of all its files. A program's own
        folder, which an emptyDir is, may hold the same link, but is open to everybody.
        """
        for parent in ("volumes", ".volumes"):
            for folder in (self.path / parent).glob("*/"):
                shown = (folder / versions.CURRENT).is_symlink() and folder.stat().st_mode & 0o777 != OPEN
                if shown or folder.suffix == ".making":
                    shutil.rmtree(folder)

    def forget_variables(self) -> None:
        """Take values of Secrets out of the intents of runs that have all ended: variables, and arguments made of
        them.
        """
        for container in self.containers():
            for attempt in range(self.attempts(container)):
                path = self.base(container, attempt).with_suffix(".json")
                intent = _read(str(path)) or {}
                if intent.get("holdsSecrets"):
                    times = path.stat()
                    shim.write_whole(str(path), {**intent, "argv": [], "env": {}, "holdsSecrets": False})
                    # What a lost run is known by.
                    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def base(self, container: str, attempt: int) -> Path:
        """The path of a run's files, without their endings."""
        return self.path / container / str(attempt)

    def sandbox(self) -> Sandbox | None:
        names = [field.name for field in fields(Sandbox)]
        record = _read(f"{self._text}/pod.json", *names)
        return Sandbox(**{name: record[name] for name in names}) if record else None

    def write_sandbox(self, sandbox: Sandbox) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        shim.write_whole(str(self.path / "pod.json"), asdict(sandbox))

    def failure(self) -> Failure | None:
        record = _read(f"{self._text}/failed.json", "reason", "message", "disruption")
        if record is None:
            return None
        return Failure(**record) if record else DAMAGED

    def fail(self, failure: Failure) -> Failure:
        """The first failure stays."""
        # What follows from a failure (our own signals, a deadline during the stop) must not hide its cause.
        if (known := self.failure()) is not None:
            return known
        shim.write_whole(str(self.path / "failed.json"), asdict(failure))
        return failure

    def containers(self) -> list[str]:
        """Names of the containers that were ever meant to run."""
        return sorted(path.parent.name for path in self.path.glob("*/0.json"))

    def attempts(self, container: str) -> int:
        """Return how often the container was meant to run."""
        count = 0
        while os.path.exists(f"{self._text}/{container}/{count}.json"):
            count += 1
        return count

    def run(self, container: str, attempt: int | None = None) -> Run | None:
        """A run, by default the newest; None when there is none."""
        number = self.attempts(container) - 1 if attempt is None else attempt
        if number < 0:
            return None
        base = f"{self._text}/{container}/{number}"
        started = _read(f"{base}.started", "startedAt", "pid", "shim", "shimStart", "boot")
        if started and is_alive(started, f"{base}.json"):
            return Run(
                number,
                "running",
                started["startedAt"],
                pid=started["pid"],
                shim=started["shim"],
                shim_start=started["shimStart"],
            )
        # After the check of the shim: it writes this before it ends.
        exited = _read(f"{base}.exited", *_EXITED)
        if exited:
            return self._read_end(container, number, exited)
        if started is not None or exited is not None:
            return self._read_end(container, number, self._record_loss(base, started or {}))
        return Run(number, "intended")

    def has_recorded_end(self, container: str, attempt: int) -> bool:
        """Return whether the record of a run's end is there; the run counts as running until its shim is gone, too."""
        return self.base(container, attempt).with_suffix(".exited").exists()

    def _record_loss(self, base: str, started: Json) -> Json:
        """The shim was killed, or the machine, or a record is damaged: the run has ended in an unknown way."""
        # Where the record of the start is damaged, too, the intent's file is
        # the only one that knows about when it was.
        intended = os.stat(f"{base}.json").st_mtime_ns
        since = started.get("startedAt") or shim.nanoseconds_text(intended)
        return {
            "startedAt": since,
            "finishedAt": since,
            # What Kubernetes' own kubelet reports of a container that it cannot find any more.
            "exitCode": 137,
            "signal": 9,
            "reason": LOST,
            "message": "The container could not be located: its shim is gone, or the machine was restarted.",
        }

    def _read_end(self, container: str, attempt: int, exited: Json) -> Run:
        base = f"{self._text}/{container}/{attempt}"
        intent = _read(f"{base}.json") or {}
        killed = _read(f"{base}.reason") or {}
        # The shim saw a SIGKILL and no more; the kubelet wrote down why before it had it sent.
        reason = killed.get("reason") or exited["reason"]
        message = exited["message"] or read_message(
            base, exited["exitCode"], intent.get("messagePolicy", "File")
        )
        return Run(
            attempt,
            "exited",
            exited["startedAt"],
            exited["finishedAt"],
            exited["exitCode"],
            exited["signal"],
            reason or ("Completed" if exited["exitCode"] == 0 else "Error"),
            message or killed.get("message", ""),
        )

    def explain(self, container: str, attempt: int, reason: str, message: str) -> None:
        """Say why a run is about to be killed; written before the kill, so that it survives the kubelet."""
        path = self.base(container, attempt).with_suffix(".reason")
        shim.write_whole(str(path), {"reason": reason, "message": message})


def is_alive(started: Json, intent: str) -> bool:
    """Return whether the shim of a started record still runs: pid, start time, boot and intent must agree."""
    return bool(
        started["boot"] == current_boot()
        and processes.start_time(started["shim"]) == started["shimStart"]
        and is_shim_of(started["shim"], started["shimStart"], intent)
    )


@lru_cache(8192)
def is_shim_of(pid: int, start: int, intent: str) -> bool:
    """Return whether the command line of a shim that runs names this intent, by whatever path.

    A folder that was copied from another one, while its Pods ran, has records of shims that are not this folder's to
    end. A path that is too long for a command line is not shown, and counts as this one.
    """
    shown = [path for path in processes.arguments(pid) if path.startswith("/") and path.endswith(".json")]
    return not shown or any(path == intent or _is_same(path, intent) for path in shown)


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_locked(base: Path) -> bool:
    """Return whether some shim holds the run's lock, so that it has just been, or is about to be, started."""
    return is_held(base.with_suffix(".lock"))


def cancel(base: Path, reason: str, message: str) -> bool:
    """Record a run that was never started as ended, so that no shim will start it; False when one has or may."""
    fd = os.open(base.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Asked under the lock: a shim may have come and gone since the caller looked.
        if base.with_suffix(".started").exists() or base.with_suffix(".exited").exists():
            return False
        now = shim.nanoseconds_text(time.time_ns())
        record = {"startedAt": now, "finishedAt": now, "exitCode": 128, "signal": 0}
        shim.write_whole(str(base.with_suffix(".exited")), {**record, "reason": reason, "message": message})
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def read_tail(path: Path) -> str:
    """The end of a small text file."""
    try:
        return path.read_text(errors="replace")[-MESSAGE_LIMIT:]
    except FileNotFoundError:
        return ""


def read_message(base: str, exit_code: int, policy: str) -> str:
    """A run's last words: its termination message, or by policy the end of its log."""
    try:
        with open(f"{base}.termination", "rb") as file:
            text = file.read(MESSAGE_LIMIT).decode(errors="replace")
    except FileNotFoundError:
        text = ""
    # Kubernetes' rule: the log stands in for a message that is empty, and only after a failure.
    if text or exit_code == 0 or policy != "FallbackToLogsOnError":
        return text
    return log_tail(Path(f"{base}.log"))


def log_tail(log: Path) -> str:
    """Return the last lines of a log, at most 80 and 2 KiB, with their ends."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # A log may have gigabytes: what is read is enough for the text,
            # and for what stands before it in each line.
            file.seek(max(0, size - 2 * TAIL_LIMIT - TAIL_LINES * 64))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return ""
    parts = [line.split(b" ", 3) for line in lines[-TAIL_LINES - 1 :]]
    # What is written without an end of line is a part (P) of one: the end comes with a later entry.
    text = b"".join(part[3] + (b"\n" if part[2] == b"F" else b"") for part in parts if len(part) == 4)
    return text[-TAIL_LIMIT:].decode(errors="replace")
