"""A server process under a guard: it is started, killed and started again by tests, and ends with the run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.engines.services import guard

START_SECONDS = 120.0


class Service:
    """A server that answers at `address`. `ready` raises OSError while it does not answer yet.

    `enter` is a prefix with which its command runs in its place.
    """

    def __init__(
        self,
        address: str,
        command: list[str],
        folder: Path,
        ready: Callable[[], None],
        *,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        enter: Sequence[str] = (),
    ) -> None:
        self.address = address
        self._command = command
        self.folder = folder
        self._log = folder / "log"
        self._ready = ready
        self._user = user
        self._environment = environment or {}
        self._enter = enter
        self._guard: subprocess.Popen[str] | None = None
        self.pid = 0

    def start(self) -> None:
        """Start the server and wait until it answers. Raises RuntimeError with the end of its log."""
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start the server, which does not answer yet."""
        command = self._command
        if self._user is not None:
            command = [
                "setpriv",
                f"--reuid={self._user}",
                f"--regid={self._user}",
                "--clear-groups",
                *command,
            ]
        with self._log.open("ab") as file:
            self._guard = subprocess.Popen(
                [sys.executable, guard.__file__, str(self.folder), *self._enter, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | self._environment,
                text=True,
                start_new_session=True,  # a SIGKILL to the run's whole group leaves the guard, which then cleans up
            )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline())

    def wait(self) -> None:
        """Return once the server answers. Raises RuntimeError with the end of its log."""
        assert self._guard is not None
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self._ready()
            except OSError as error:
                if self._guard.poll() is not None or time.monotonic() > end:
                    text = self._log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self._command[0]} does not answer: {error}\n{text}") from error
                time.sleep(0.05)
            else:
                return

    def signal(self, number: int) -> None:
        """Send a signal to the server's first process alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill every process of the server at once, and wait until they are gone."""
        self.signal(signal.SIGKILL)
        self.stop()

    def terminate(self) -> None:
        """Ask the server to end, and wait until it has."""
        assert self._guard is not None
        self.signal(signal.SIGTERM)
        self._guard.wait(START_SECONDS)

    def stop(self) -> None:
        """End the guard, which kills what is left of the server."""
        if self._guard is not None:
            self._guard.communicate(guard.KEEP.decode())
            self._guard = None
