"""NVIDIA's GPUs: the process that asks NVML (`nvml.py`) as a `Finder`, and the variables that CUDA reads."""

import asyncio
import contextlib
import importlib.util
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard_common.types import Json
from steelyard_local_kubernetes.gpus.devices import Device, Snapshot

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Devices of the driver on Linux, and on Windows' Linux."""
FIRST_SECONDS = 60.0  # NVML may have to wake every GPU of the machine
ANSWER_SECONDS = 20.0
END_SECONDS = 1.0  # for a killed process to end; one that a driver holds does not
LIBRARY = "pynvml"
VISIBLE = "CUDA_VISIBLE_DEVICES"

_log = logging.getLogger(__name__)


def driver_is_here() -> bool:
    return any(path.exists() for path in DRIVERS)


class Nvidia:
    """Takes snapshots of the machine through a process that starts at the first one, and again after it failed."""

    vendor = "nvidia.com"

    def __init__(
        self,
        library: str = LIBRARY,
        *,
        seconds: float = ANSWER_SECONDS,
        first_seconds: float = FIRST_SECONDS,
        driver: Callable[[], bool] = driver_is_here,
    ) -> None:
        self._library, self._seconds, self._first_seconds = library, seconds, first_seconds
        # Another module than NVIDIA's own need not use the driver of this machine.
        self._driver = driver if library == LIBRARY else lambda: True
        self._process: asyncio.subprocess.Process | None = None
        self._answered = False
        self._endings: set[asyncio.Task[int]] = set()

    def has_driver(self) -> bool:
        return self._driver()

    def absence(self) -> str:
        if not self._driver():
            return (
                "no GPU was found on this machine: it has no NVIDIA driver (/dev/nvidiactl is missing); "
                "ask for none, or use a machine that has one"
            )
        if importlib.util.find_spec(self._library) is None:
            return (
                "the GPUs of this machine cannot be counted without nvidia-ml-py: "
                "run pip install 'steelyard[gpu]', then start Steelyard again"
            )
        return ""

    async def snapshot(self) -> Snapshot:
        if reason := self.absence():
            return Snapshot(problem=reason)
        seconds = self._seconds if self._answered else self._first_seconds
        try:
            async with asyncio.timeout(seconds):
                answer = await self._ask()
        except TimeoutError:
            self._end()
            return Snapshot(problem=f"NVML has not answered within {seconds:g} s: the NVIDIA driver hangs")
        except asyncio.CancelledError:
            self._end()  # its answer would be taken for that to the next question
            raise
        except (OSError, ValueError) as error:
            self._end()
            return Snapshot(problem=f"NVML cannot be asked: {error}")
        if "problem" in answer:
            self._end()
            return Snapshot(problem=answer["problem"])
        self._answered = True
        devices = (
            Device(**{**device, "processes": tuple(device.get("processes", ()))})
            for device in answer["devices"]
        )
        return Snapshot(tuple(devices), frozenset(answer["present"]))

    async def _ask(self) -> Json:
        if self._endings:
            await asyncio.wait(self._endings, timeout=END_SECONDS)
        if self._endings:
            raise OSError("the driver holds a process that was killed, and would hold the next")
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "steelyard_local_kubernetes.gpus.nvml", self._library,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 22,
            )  # fmt: skip
        process = self._process
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"snapshot\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise OSError("its process ended; the log says why")
        answer: Json = json.loads(line)
        return answer

    def _end(self) -> None:
        """Give the process up. One that a driver holds may never end, so it is not waited for."""
        process, self._process, self._answered = self._process, None, False
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        ending = asyncio.get_running_loop().create_task(process.wait())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    def variables(self, devices: Sequence[Device]) -> dict[str, str]:
        """Return what CUDA reads: numbers where they are sure, for older versions of vLLM, else UUIDs."""
        uuids = ",".join(dict.fromkeys(device.uuid for device in devices))
        numbers = [device.number for device in devices]
        if not devices or None in numbers:
            return {VISIBLE: uuids, "NVIDIA_VISIBLE_DEVICES": uuids or "void"}
        visible = ",".join(dict.fromkeys(map(str, numbers)))
        return {VISIBLE: visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": uuids}

    async def close(self) -> None:
        self._end()
        if self._endings:
            await asyncio.wait(self._endings, timeout=END_SECONDS)
        for ending in self._endings:
            ending.cancel()
