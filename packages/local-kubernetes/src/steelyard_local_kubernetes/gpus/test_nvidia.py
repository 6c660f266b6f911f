"""Tests of the process that asks NVML, on a double of NVIDIA's library."""

import asyncio
import importlib
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard_local_kubernetes.gpus import fake_pynvml, nvml
from steelyard_local_kubernetes.gpus.devices import Device
from steelyard_local_kubernetes.gpus.nvidia import Nvidia
from steelyard_local_kubernetes.gpus.nvml import mig_resource, resource_from_name
from steelyard_local_kubernetes.gpus.testing import FAKE, FakeGpus


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    return FakeGpus(tmp_path / "nvml.json", monkeypatch)


@pytest.fixture
async def finder() -> AsyncIterator[Nvidia]:
    made = Nvidia(FAKE)
    yield made
    await made.close()


async def test_gpus_are_numbered_in_the_order_of_the_bus(gpus: FakeGpus, finder: Nvidia) -> None:
    gpus.write(
        {"uuid": "GPU-b", "bus": "00000000:9A:00.0", "pids": [5, 3, 5]},
        {"uuid": "GPU-a", "bus": "00000000:17:00.0"},
    )
    snapshot = await finder.snapshot()
    assert [(entry.uuid, entry.number, entry.processes) for entry in snapshot.devices] == [
        ("GPU-b", 1, (3, 5)), ("GPU-a", 0, ()),
    ]  # fmt: skip
    assert {entry.resource for entry in snapshot.devices} == {"nvidia.com/gpu"}
    assert snapshot.present == {"GPU-a", "GPU-b"}
    assert finder.variables(snapshot.devices[:1]) == {
        "CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "GPU-b",
    }  # fmt: skip
    assert finder.variables(()) == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


async def test_a_gpu_that_is_lost_keeps_its_name_and_takes_the_numbers_of_all(
    gpus: FakeGpus, finder: Nvidia
) -> None:
    gpus.write({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    await finder.snapshot()
    gpus.write({"uuid": "GPU-a", "error": 15}, {"uuid": "GPU-b"})
    snapshot = await finder.snapshot()
    assert [(entry.uuid, entry.fault, entry.number) for entry in snapshot.devices] == [
        ("GPU-a", "GPU is lost", None), ("GPU-b", "", None),
    ]  # fmt: skip
    assert finder.variables(snapshot.devices[1:])["CUDA_VISIBLE_DEVICES"] == "GPU-b"


async def test_errors_that_a_gpu_does_not_survive_are_distinguished_from_those_of_programs(
    gpus: FakeGpus, finder: Nvidia
) -> None:
    gpus.write({"uuid": "GPU-a", "xids": [13, 31]}, {"uuid": "GPU-b", "xids": [79]})
    faults = [entry.fault for entry in (await finder.snapshot()).devices]
    assert faults == ["", "the driver reported error Xid 79"]
    gpus.write({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    assert [entry.fault for entry in (await finder.snapshot()).devices] == faults, (
        "until somebody has looked after it"
    )


async def test_instances_count_by_their_profiles_and_their_gpu_not_at_all(
    gpus: FakeGpus, finder: Nvidia
) -> None:
    parts = [
        {
            "uuid": "MIG-1",
            "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "slices": 1,
            "memory_mib": 9856,
            "pids": [4],
        },
        {"uuid": "MIG-2", "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "slices": 1, "memory_mib": 9856},
        {"uuid": "MIG-3", "name": "NVIDIA H100 80GB HBM3", "slices": 3, "memory_mib": 40448},
    ]
    gpus.write({"uuid": "GPU-a", "mig": parts}, {"uuid": "GPU-b"})  # the third has no profile in its name
    snapshot = await finder.snapshot()
    assert [(entry.uuid, entry.resource, entry.processes) for entry in snapshot.devices] == [
        ("MIG-1", "nvidia.com/mig-1g.10gb", (4,)),
        ("MIG-2", "nvidia.com/mig-1g.10gb.me", ()),
        ("MIG-3", "nvidia.com/mig-3g.40gb", ()),
        ("GPU-b", "nvidia.com/gpu", ()),
    ]
    assert snapshot.present == {"GPU-a", "GPU-b"}
    assert finder.variables(snapshot.devices[:1])["CUDA_VISIBLE_DEVICES"] == "MIG-1"
    gpus.write({"uuid": "GPU-a", "mig": parts, "xids": [79]})
    assert {entry.fault for entry in (await finder.snapshot()).devices} == {
        "the driver reported error Xid 79"
    }


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.2g.20gb", "nvidia.com/mig-1c.2g.20gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("NVIDIA A100-SXM4-40GB", ""),
    ],
)
def test_names_of_instances(name: str, resource: str) -> None:
    assert resource_from_name(name) == resource


@pytest.mark.parametrize(
    ("sizes", "resource"),
    [
        ((1, 1, 4864, 40 << 30), "nvidia.com/mig-1g.5gb"),
        ((3, 1, 19968, 40 << 30), "nvidia.com/mig-1c.3g.20gb"),
        ((7, 7, 81152, 80 << 30), "nvidia.com/mig-7g.80gb"),
    ],
)
def test_names_of_instances_by_their_sizes(sizes: tuple[int, int, int, int], resource: str) -> None:
    assert mig_resource(*sizes) == resource


async def test_what_a_gpu_cannot_tell_is_left_out(gpus: FakeGpus, finder: Nvidia) -> None:
    gpus.write({"uuid": "GPU-a", "cannot": ["memory", "processes", "events"]})
    (device,) = (await finder.snapshot()).devices
    assert (device.memory, device.processes, device.fault) == (0, (), "")


async def test_a_driver_that_hangs_is_given_up_and_asked_again(gpus: FakeGpus) -> None:
    finder = Nvidia(FAKE, seconds=0.2, first_seconds=30.0)
    gpus.write({"uuid": "GPU-a"})
    assert [entry.uuid for entry in (await finder.snapshot()).devices] == ["GPU-a"]
    gpus.write({"uuid": "GPU-a"}, hang=True)
    assert "hangs" in (await finder.snapshot()).problem
    gpus.write({"uuid": "GPU-a"})
    assert [entry.uuid for entry in (await finder.snapshot()).devices] == ["GPU-a"]
    await finder.close()


async def test_a_question_that_was_given_up_leaves_no_answer_behind(gpus: FakeGpus, finder: Nvidia) -> None:
    gpus.write({"uuid": "GPU-a"})
    await finder.snapshot()
    gpus.write({"uuid": "GPU-a"}, hang=True)
    asking = asyncio.create_task(finder.snapshot())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    gpus.write({"uuid": "GPU-b"})
    snapshot = await finder.snapshot()
    assert [entry.uuid for entry in snapshot.devices] == ["GPU-b"]


async def test_a_library_that_cannot_be_used_says_why(gpus: FakeGpus, finder: Nvidia) -> None:
    gpus.write(init=9)
    assert (await finder.snapshot()).problem == "NVML: Driver Not Loaded"
    gpus.write({"uuid": "GPU-a"})
    assert not (await finder.snapshot()).problem


def test_what_is_missing_is_said_with_its_remedy() -> None:
    assert "no NVIDIA driver" in Nvidia(driver=lambda: False).absence()
    assert not Nvidia(FAKE).absence()
    missing = Nvidia("no_such_library")
    assert "pip install 'steelyard[gpu]'" in missing.absence()


def test_the_double_has_the_names_and_arguments_of_the_library() -> None:
    """Tests on a double with names of its own would say nothing of a machine with GPUs."""
    library = importlib.import_module("pynvml")
    for name, made in vars(fake_pynvml).items():
        if name.startswith("nvml") and callable(made):
            real = inspect.signature(getattr(library, name)).parameters
            given = inspect.signature(made).parameters
            assert list(given) == list(real)[: len(given)], name
            assert all(
                real[extra].default is not inspect.Parameter.empty for extra in list(real)[len(given) :]
            ), name
        elif name.startswith("NVMLError"):
            assert issubclass(getattr(library, name), library.NVMLError), name
    assert library.nvmlEventTypeXidCriticalError == fake_pynvml.nvmlEventTypeXidCriticalError


def test_what_is_asked_of_the_library_is_there() -> None:
    library = importlib.import_module("pynvml")
    names = set(re.findall(r"nvml\w*\.((?:nvml|NVML)\w+)", inspect.getsource(nvml)))
    assert len(names) > 12
    assert [name for name in names if not hasattr(library, name) or not hasattr(fake_pynvml, name)] == []


async def test_without_a_driver_no_process_is_started() -> None:
    finder = Nvidia(driver=lambda: False)
    snapshot = await finder.snapshot()
    assert (snapshot.devices, finder._process) == ((), None)
    assert "no NVIDIA driver" in snapshot.problem


def test_devices_without_a_number_are_named_by_uuid() -> None:
    devices = [Device("GPU-a", "nvidia.com/gpu", "", number=0), Device("GPU-b", "nvidia.com/gpu", "")]
    assert Nvidia(FAKE).variables(devices)["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
