"""The program that asks NVML, in a process of its own: a driver that hangs stops this process and no other.

`nvidia.py` starts it and writes a line for each snapshot; the answer is one line of JSON. It ends with its input. Names
of resources are those of NVIDIA's device plugin for Kubernetes, with its strategy `mixed`: an instance of MIG counts
by its profile, a GPU without MIG as nvidia.com/gpu.
"""

import contextlib
import importlib
import json
import math
import re
import sys
from typing import Any

from steelyard_common.types import Json

GPU = "nvidia.com/gpu"
HARMLESS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that a program causes and that end with it; the device plugin passes over the same ones."""
MOST_ERRORS = 1000  # read at one snapshot
_PROFILE = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb(?:[+-][\w.,+-]+)?)$")
_GIB = 1 << 30


def resource_from_name(name: str) -> str:
    """Return the resource of an instance of MIG by the profile in its name; empty where older drivers give none."""
    profile = _PROFILE.search(name)
    return f"nvidia.com/mig-{profile[1].replace('+', '.')}" if profile else ""


def mig_resource(slices: int, compute: int, mib: int, whole: int) -> str:
    """Return the resource of an instance of MIG by its slices and its part of the memory.

    `mib` is its memory in MiB, `whole` the GPU's in bytes.
    """
    eighths = math.ceil(mib * (1 << 20) / whole * 8) / 8
    size = round(eighths * ((whole + _GIB - 1) // _GIB))
    parts = f"{slices}g.{size}gb" if compute == slices else f"{compute}c.{slices}g.{size}gb"
    return f"nvidia.com/mig-{parts}"


class Nvml:
    """One session with the library, from its first snapshot on."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        library.nvmlInit()
        self._uuids: dict[int, str] = {}  # by index, for GPUs that do not say it any more
        self._xids: dict[str, int] = {}  # the errors that a GPU does not recover from, by UUID
        self._events = self._follow_errors()

    def _follow_errors(self) -> Any:
        """Subscribe to critical errors. GPUs that cannot report them are not asked."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError_NotSupported:
            return None
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError:
                continue
        return events

    def snapshot(self) -> Json:
        nvml = self._nvml
        self._note_errors()
        devices: list[Json] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                devices += self._gpu(index)
            except nvml.NVMLError as error:
                uuid = self._uuids.get(index, f"unknown-{index}")
                devices.append({"uuid": uuid, "resource": GPU, "name": "NVIDIA GPU", "fault": str(error)})
        for device in devices:
            gpu = device.pop("gpu", device["uuid"])
            if gpu in self._xids:
                device["fault"] = f"the driver reported error Xid {self._xids[gpu]}"
        return {"devices": _with_numbers(devices), "present": sorted(self._uuids.values())}

    def _note_errors(self) -> None:
        nvml = self._nvml
        for _ in range(MOST_ERRORS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:  # a time-out: there is none
                return
            if int(event.eventData) in HARMLESS:
                continue
            try:
                concerned = [_text(nvml.nvmlDeviceGetUUID(event.device))]
            except nvml.NVMLError:
                concerned = list(self._uuids.values())
            self._xids.update(dict.fromkeys(concerned, int(event.eventData)))

    def _gpu(self, index: int) -> list[Json]:
        """A GPU, or in its place its instances of MIG."""
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = self._uuids[index] = _text(nvml.nvmlDeviceGetUUID(handle))
        if self._divided(handle):
            return self._instances(handle, uuid)
        bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
        return [{**self._facts(handle, uuid), "resource": GPU, "bus": bus}]

    def _divided(self, handle: Any) -> bool:
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(handle)[0])
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
            return False

    def _instances(self, handle: Any, gpu: str) -> list[Json]:
        nvml = self._nvml
        instances = []
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError_NotFound:
                continue
            facts = self._facts(instance, _text(nvml.nvmlDeviceGetUUID(instance)))
            resource = resource_from_name(facts["name"]) or self._resource_from_size(handle, instance)
            instances.append({**facts, "resource": resource, "gpu": gpu})
        return instances

    def _resource_from_size(self, gpu: Any, instance: Any) -> str:
        """Return the resource of an instance whose name does not show it; the memory of a divided GPU takes
        privileges."""
        sizes = self._nvml.nvmlDeviceGetAttributes_v2(instance)
        slices, compute = int(sizes.gpuInstanceSliceCount), int(sizes.computeInstanceSliceCount)
        whole = int(self._nvml.nvmlDeviceGetMemoryInfo(gpu).total)
        return mig_resource(slices, compute, int(sizes.memorySizeMB), whole)

    def _facts(self, handle: Any, uuid: str) -> Json:
        """Return what there is to know of a device. WSL does not report processes, nor a built-in GPU its memory."""
        nvml = self._nvml
        facts: Json = {"uuid": uuid, "name": _text(nvml.nvmlDeviceGetName(handle))}
        with contextlib.suppress(nvml.NVMLError_NotSupported):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            facts |= {"memory": int(memory.total), "used": int(memory.used)}
        with contextlib.suppress(nvml.NVMLError_NotSupported):
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            facts["processes"] = sorted({int(process.pid) for process in processes})
        return facts


def _with_numbers(devices: list[Json]) -> list[Json]:
    """The devices with CUDA's numbers in the order of the bus.

    One GPU that fails or is divided moves the others' numbers: then none has one, and only UUIDs are to be trusted.
    """
    buses = [device.pop("bus", None) for device in devices]
    if any(bus is None for bus in buses) or any(device.get("fault") for device in devices):
        return devices
    order = sorted(buses)
    return [{**device, "number": order.index(bus)} for device, bus in zip(devices, buses, strict=True)]


def _text(value: str | bytes) -> str:
    """Texts are bytes in older versions of the library, and in its structures in all."""
    return value.decode() if isinstance(value, bytes) else value


def main(library: str) -> None:
    """Answer each line of the input with a snapshot; a library that cannot be used says so and ends the process."""
    module = importlib.import_module(library)
    session: Nvml | None = None
    for _ in sys.stdin:
        try:
            session = session or Nvml(module)
            print(json.dumps(session.snapshot()), flush=True)
        except module.NVMLError as error:
            print(json.dumps({"problem": f"NVML: {error}"}), flush=True)
            return


if __name__ == "__main__":
    main(sys.argv[1])
