"""A double of NVIDIA's library `pynvml`: the same names, over GPUs that a JSON file describes.

STEELYARD_FAKE_NVML names the file; what it says holds from the next call on:
`{"gpus": [{"uuid": …, "bus": …, "memory": …, "used": …, "pids": [], "error": 15, "xids": [79], "held_by": …,
"late": 1.0, "mig": [{"uuid": …, "name": …, "slices": 1, "compute": 1, "memory_mib": …}]}], "init": 9, "hang": true}`.
`cannot` lists what a GPU cannot report: memory, processes, events. `held_by` names an environment variable: processes
that have it, and the GPU, hold it until `late` seconds after their end.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from steelyard_common.types import Json

nvmlEventTypeXidCriticalError = 8  # noqa: N816
MESSAGES = {3: "Not Supported", 6: "Not Found", 9: "Driver Not Loaded", 10: "Timeout", 15: "GPU is lost"}


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(MESSAGES[value])


class NVMLError_NotSupported(NVMLError):  # noqa: N801
    pass


class NVMLError_FunctionNotFound(NVMLError):  # noqa: N801
    pass


class NVMLError_NotFound(NVMLError):  # noqa: N801
    pass


class NVMLError_Timeout(NVMLError):  # noqa: N801
    pass


@dataclass(frozen=True)
class Handle:
    gpu: int
    instance: int | None = None


_seen: dict[tuple[str, int], float] = {}  # when a process was last there, by GPU and number
_reported: set[tuple[str, int]] = set()


def _state() -> Json:
    state: Json = json.loads(Path(os.environ["STEELYARD_FAKE_NVML"]).read_text())
    while state.get("hang"):
        time.sleep(0.05)
        state = json.loads(Path(os.environ["STEELYARD_FAKE_NVML"]).read_text())
    return state


def _entry(handle: Handle) -> Json:
    gpu: Json = _state()["gpus"][handle.gpu]
    if gpu.get("error"):
        raise NVMLError(gpu["error"])
    entry: Json = gpu if handle.instance is None else gpu["mig"][handle.instance]
    return entry


def _able(handle: Handle, ability: str) -> Json:
    """The entry of a GPU that has an ability; `cannot` lists those that it lacks."""
    entry = _entry(handle)
    if ability in entry.get("cannot", ()):
        raise NVMLError_NotSupported(3)
    return entry


def nvmlInit() -> None:  # noqa: N802
    if error := _state().get("init"):
        raise NVMLError(error)


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_state()["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> Handle:  # noqa: N802
    return Handle(index)


def nvmlDeviceGetUUID(handle: Handle) -> str:  # noqa: N802
    return str(_entry(handle)["uuid"])


def nvmlDeviceGetName(handle: Handle) -> str:  # noqa: N802
    return str(_entry(handle).get("name", "NVIDIA H100 80GB HBM3"))


def nvmlDeviceGetPciInfo(handle: Handle) -> Any:  # noqa: N802
    bus = _entry(handle).get("bus", f"00000000:{handle.gpu:02X}:00.0")
    return SimpleNamespace(busId=bus.encode())


def nvmlDeviceGetMemoryInfo(handle: Handle) -> Any:  # noqa: N802
    entry = _able(handle, "memory")
    total = entry["memory_mib"] << 20 if "memory_mib" in entry else entry.get("memory", 80 << 30)
    return SimpleNamespace(total=total, used=entry.get("used", 0))


def nvmlDeviceGetComputeRunningProcesses(handle: Handle) -> list[Any]:  # noqa: N802
    entry = _able(handle, "processes")
    pids = {*entry.get("pids", ()), *_holders(entry)}
    return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in sorted(pids)]


def _holders(entry: Json) -> set[int]:
    """Processes that were started with the entry's variable and its GPU, also for some time after they ended."""
    if "held_by" not in entry:
        return set()
    marks = (f"{entry['held_by']}=".encode(), f"NVIDIA_VISIBLE_DEVICES={entry['uuid']}".encode())
    now = time.monotonic()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marks[1] in variables and any(variable.startswith(marks[0]) for variable in variables):
            _seen[entry["uuid"], int(path.parent.name)] = now
    late = entry.get("late", 0.0)
    return {pid for (uuid, pid), last in _seen.items() if uuid == entry["uuid"] and now - last <= late}


def nvmlDeviceGetMigMode(device: Handle) -> list[int]:  # noqa: N802
    if "mig" not in _entry(device):
        raise NVMLError_NotSupported(3)
    return [1, 1]


def nvmlDeviceGetMaxMigDeviceCount(device: Handle) -> int:  # noqa: N802
    _entry(device)
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: int) -> Handle:  # noqa: N802
    if index >= len(_entry(device)["mig"]):
        raise NVMLError_NotFound(6)
    return Handle(device.gpu, index)


def nvmlDeviceGetAttributes_v2(device: Handle) -> Any:  # noqa: N802
    entry = _entry(device)
    return SimpleNamespace(
        gpuInstanceSliceCount=entry["slices"],
        computeInstanceSliceCount=entry.get("compute", entry["slices"]),
        memorySizeMB=entry["memory_mib"],
    )


def nvmlEventSetCreate() -> object:  # noqa: N802
    return object()


def nvmlDeviceRegisterEvents(handle: Handle, eventTypes: int, eventSet: object) -> None:  # noqa: N802, N803
    _able(handle, "events")


def nvmlEventSetWait_v2(eventSet: object, timeoutms: int) -> Any:  # noqa: N802, N803
    for index, gpu in enumerate(_state()["gpus"]):
        for xid in gpu.get("xids", ()):
            if (gpu["uuid"], xid) not in _reported:
                _reported.add((gpu["uuid"], xid))
                return SimpleNamespace(device=Handle(index), eventType=8, eventData=xid)
    raise NVMLError_Timeout(10)
