"""Runs a command until standard input ends, then kills all its processes and removes its folder.

The folder stays where the input says so. The pipe ends when its writer ends, however it ends: a killed test run leaves
no server and no data behind.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
KEEP = b"keep the folder"


def main(folder: str, command: list[str]) -> int:
    # What ends the test run ends the pipe: Ctrl-C, and `timeout`, which signals its whole group. A handler and not
    # SIG_IGN, which the server would inherit.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    # Children of the server whose parent has ended become children of this process, which can find and kill them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    print(process.pid, flush=True)
    words: list[bytes] = []
    reader = threading.Thread(target=lambda: words.append(sys.stdin.buffer.read()), daemon=True)
    reader.start()
    while reader.is_alive() and process.poll() is None:
        reader.join(0.1)
    kill_all()
    if words and words[0] != KEEP:
        shutil.rmtree(folder, ignore_errors=True)
    return process.wait()


def kill_all() -> None:
    """Kill the processes below this one until there are none: one may have forked while the others were killed."""
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def _children() -> list[int]:
    own = os.getpid()
    return [int(child) for child in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
