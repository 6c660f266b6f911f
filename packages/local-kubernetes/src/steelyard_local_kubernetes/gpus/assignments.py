"""Records of the GPUs that a Pod has: `<pods>/<uid>/gpus.json`, written before the first start that uses them.

Written whole and durably, and read by every new kubelet. A damaged record names no GPU, so that the ledger gives
none away while it lasts.
"""

import contextlib
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.durable import write_atomically
from steelyard_common.types import Json

FILE = "gpus.json"
FREED = "gpus.freed.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assignment:
    """GPUs of one Pod: UUIDs by resource, each as often as the Pod has it. None: it is unknown which."""

    uid: str
    pod: str  # namespace/name
    devices: Mapping[str, tuple[str, ...]] | None

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(uuid for uuids in (self.devices or {}).values() for uuid in uuids)


def write(folder: Path, assignment: Assignment) -> None:
    """Durable when it returns; OSError, as on a full disk, leaves the record as it was."""
    record = {"uid": assignment.uid, "pod": assignment.pod, "devices": dict(assignment.devices or {})}
    write_atomically(folder / FILE, json.dumps(record))


def read(folder: Path) -> Assignment | None:
    """The Pod's assignment; None where there is none."""
    try:
        record = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        record = None
    if (
        isinstance(record, dict)
        and isinstance(record.get("devices"), dict)
        and record.get("uid") == folder.name
    ):
        devices = {str(name): tuple(map(str, uuids)) for name, uuids in record["devices"].items()}
        return Assignment(folder.name, str(record.get("pod", folder.name)), devices)
    _log.warning("%s: is damaged; until its Pod has ended, no further GPU is given away", folder / FILE)
    return Assignment(folder.name, folder.name, None)


def free(folder: Path) -> None:
    """Put the record aside: its GPUs are free. One that stays for a crash is read, and freed, once more."""
    with contextlib.suppress(OSError):
        (folder / FILE).rename(folder / FREED)


def select_devices(resources: Mapping[str, float], vendor: str) -> dict[str, int]:
    """The devices of a vendor among the resources that a Pod or a container asks for."""
    return {
        name: math.ceil(amount)
        for name, amount in resources.items()
        if name.startswith(f"{vendor}/") and amount > 0
    }


def container_devices(
    pod: Json, name: str, assignment: Assignment, asks: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...]:
    """UUIDs of one container of the Pod; `asks` is what each container asks for.

    Containers that run side by side share nothing. An init container runs before them all and has what they will have.
    """
    beside = [container["name"] for container in pod["spec"]["containers"]]
    uuids: list[str] = []
    for resource, devices in (assignment.devices or {}).items():
        before = beside[: beside.index(name)] if name in beside else []
        start = sum(asks[other].get(resource, 0) for other in before)
        uuids += devices[start : start + asks[name].get(resource, 0)]
    return tuple(uuids)
