"""A Kubernetes in a process of its own, for programs and tests that want one beside them."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.errors import SteelyardError

END_SECONDS = 60.0
"""Time for the end of all Pods; after it the process is killed, and Pods end when their lease does."""


@dataclass(frozen=True)
class RunningKubernetes:
    """Files of a Kubernetes: every client reads the kubeconfig."""

    kubeconfig: Path
    folder: Path
    """Folder of its objects, of what its Pods write (`pods`, `claims`), and of its log (`log`)."""


@contextlib.contextmanager
def running_kubernetes(folder: Path | None = None) -> Iterator[RunningKubernetes]:
    """Run a Kubernetes for as long as the block runs; its Pods end with it.

    Without a folder it keeps nothing. Raises SteelyardError, with the end of its log, where it does not start.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubernetes-")))
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = stack.enter_context((folder / "log").open("ab"))
        began = log.tell()
        command = [sys.executable, "-m", "steelyard_local_kubernetes", str(folder)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        stack.callback(end, process)
        assert process.stdout is not None
        # It prints once the node takes Pods, and nothing else before; where it ends instead, its output ends.
        line = os.fsdecode(stack.enter_context(process.stdout).readline()).strip()
        if not line:
            said = (folder / "log").read_bytes()[began:].decode(errors="replace")
            raise SteelyardError(f"Kubernetes does not start on {folder}:\n{said[-4000:]}")
        yield RunningKubernetes(folder / "kubeconfig", folder)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End it in order, with its Pods; a process that does not end is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
