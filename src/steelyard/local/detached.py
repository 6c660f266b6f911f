"""Starts `steelyard up` in the background and ends it: `--detach`, `steelyard down`, `steelyard run`, tests."""

import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from steelyard.local.files import prepare
from steelyard.local.kept_process import tail
from steelyard.local.leftovers import end_leftovers, living
from steelyard.local.state import Ready, StateDir, process_start, read_ready, read_record
from steelyard_common.errors import Refused, SteelyardError, UsageError
from steelyard_common.lock import is_held

START_SECONDS = 300.0  # for two groups of parts, one after the other
END_SECONDS = 60.0


@dataclass(frozen=True)
class UpOptions:
    """Options of `up`."""

    port: int = 0
    api_port: int = 0
    settings: Path | None = None
    ready_file: Path | None = None
    without: tuple[str, ...] = ()
    new_kubernetes: bool = False

    def words(self) -> list[str]:
        """Return the options as arguments of the command."""
        said = ["--port", str(self.port), "--api-port", str(self.api_port)]
        said += ["--settings", str(self.settings.resolve())] if self.settings else []
        said += ["--ready-file", str(self.ready_file.resolve())] if self.ready_file else []
        said += ["--new-kubernetes"] if self.new_kubernetes else []
        return said + [word for name in self.without for word in ("--without", name)]


def start_detached(state: Path, options: UpOptions = UpOptions()) -> Ready:
    """Start `up` on the folder and return once everything answers. Its output goes to `logs/up.log`.

    Raises SteelyardError with the end of the log when it ends instead, UsageError when one runs already.
    """
    folder = StateDir(state.resolve())
    prepare(folder, new_kubernetes=options.new_kubernetes)
    command = [
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "up",
        "--state-dir",
        str(folder.path),
        *options.words(),
    ]
    with folder.log("up").open("ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        return _once_ready(folder, process, began)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _once_ready(folder: StateDir, process: "subprocess.Popen[bytes]", began: int) -> Ready:
    """Return the addresses that `up` prints once everything answers; `began` is where its part of the log
    begins.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        ready = read_ready(folder)
        # The file may be that of an earlier `up` that was killed: it counts only with the pid of the one just
        # started.
        if ready and ready.pid == process.pid:
            Thread(target=process.wait, daemon=True).start()  # nothing of it is left when it ends before us
            return ready
        code = process.poll()
        if code is not None:
            said = folder.log("up").read_bytes()[began:].decode(errors="replace")
            kinds = {UsageError.exit_code: UsageError, Refused.exit_code: Refused}
            raise kinds.get(code, SteelyardError)(error_in(said) or f"exit {code}")
        time.sleep(0.02)
    process.terminate()
    raise SteelyardError(
        f"up is not ready after {START_SECONDS:.0f} s; the end of its log:\n{tail(folder.log('up'))}"
    )


def error_in(output: str) -> str:
    """Return the error with which a command has ended; what it said before, such as that a port has changed, is left
    out.
    """
    return re.split("^steelyard: ", output, maxsplit=1, flags=re.MULTILINE)[-1].strip()


def stop(state: Path) -> None:
    """End the `up` of the folder and everything of it, also what a killed one left. Nothing running is fine.

    Raises SteelyardError where the folder cannot be written: a Pod whose end cannot be recorded is not ended.
    """
    folder = StateDir(state.resolve())
    if not folder.path.is_dir():
        return
    try:
        _end_supervisor(folder)
        with ThreadPoolExecutor(1) as thread:  # the caller may have a loop of its own
            thread.submit(asyncio.run, _end_rest(folder)).result()
        folder.ready.unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise SteelyardError(
            f"--state-dir {folder.path}: {error.filename or folder.path} cannot be written ({error.strerror}); "
            "what runs on it may run on: make it writable, and say down again"
        ) from error


async def _end_rest(folder: StateDir) -> None:
    from steelyard.local.kubernetes import kubernetes_config
    from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
    from steelyard_local_kubernetes.network import FIRST, Network

    record = read_record(folder)
    await end_leftovers(record)
    # Also where the record was lost.
    await stop_all_pods(kubernetes_config(folder).kubelet(Network(record.network or FIRST)))


def running(state: StateDir) -> bool:
    """Return whether an `up` runs on the folder and everything answers."""
    ready = read_ready(state)
    return ready is not None and ready.pid == read_record(state).pid and is_held(state.lock())


def _end_supervisor(folder: StateDir) -> None:
    """End the supervisor by SIGTERM, and by SIGKILL when that does not help; return when the process itself
    is gone.
    """
    pid = _holder(folder)
    supervisor = [(pid, process_start(pid))] if pid else []
    for number, patience in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, 5.0)):
        if living(supervisor):
            os.kill(pid, number)
        # The lock says when the process is gone, also where its pid could not be read.
        until = time.monotonic() + patience
        while (living(supervisor) or is_held(folder.lock())) and time.monotonic() < until:
            time.sleep(0.05)
    if is_held(folder.lock()):
        raise SteelyardError(
            f"--state-dir {folder.path}: the process that holds {folder.lock()} does not end"
        )


def _holder(folder: StateDir) -> int:
    """The pid of the `up` that holds the folder's lock, into which it writes it at once; 0 when there is none."""
    try:
        return int(folder.lock().read_text()) if is_held(folder.lock()) else 0
    except (OSError, ValueError):
        return 0
