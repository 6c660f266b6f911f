"""Ledger of the GPUs: what snapshots of the machine showed, and what Pods were given. No input or output here.

A GPU that a Pod had is free again when a snapshot that began after the Pod's end shows that no process holds it. A GPU
of an unknown state counts as held.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from steelyard_local_kubernetes.gpus.assignments import Assignment
from steelyard_local_kubernetes.gpus.devices import Device, Snapshot

SHOWN = 8  # GPUs that one sentence names


class Unavailable(Exception):
    """The machine cannot give a Pod the GPUs that it asks for now."""


@dataclass
class Release:
    """An ended Pod whose GPUs are not yet known to be free."""

    began: int  # snapshots begun by the Pod's end; later ones count
    used: dict[str, int] = field(default_factory=dict)  # bytes at the last snapshot, by UUID


@dataclass(frozen=True)
class News:
    """Changes that a snapshot showed."""

    lost: tuple[Device, ...] = ()
    back: tuple[Device, ...] = ()
    freed: tuple[str, ...] = ()  # uids of Pods
    changed: bool = False


class Ledger:
    """The GPUs that there are, and the Pods that have them.

    `owner_of` returns the uid of the Pod that a process belongs to, for GPUs that several may use."""

    def __init__(
        self,
        shares: int = 1,
        *,
        wait_for_others: bool = True,
        owner_of: Callable[[int], str] = lambda pid: "",
    ) -> None:
        self.shares = shares
        self._alone = shares == 1 and wait_for_others  # every process on a GPU counts
        self._owner_of = owner_of
        self.devices: dict[str, Device] = {}
        self.held: dict[str, Assignment] = {}  # by uid
        self.releasing: dict[str, Release] = {}  # of those held
        self.problem = ""  # why the last snapshot found nothing out
        self.has_snapshot = False
        self._pids: dict[str, set[int]] = {}  # processes that a Pod was seen to have, by uid

    # ---- what a snapshot shows

    def apply_snapshot(self, snapshot: Snapshot, number: int) -> News:
        """Take a snapshot into account; `number` counts snapshots by their beginning."""
        before = {uuid: replace(device, used=0) for uuid, device in self.devices.items()}
        problem, self.has_snapshot = self.problem, True
        self.problem = snapshot.problem
        if snapshot.problem:
            # What is there is not known any more, and nothing is given away until it is.
            return News(changed=problem != snapshot.problem)
        self.devices = {device.uuid: device for device in snapshot.devices}
        self.devices |= dict(self._find_vanished(before, snapshot))
        if not self._alone:
            self._note_owners()
        freed = tuple(uid for uid in list(self.releasing) if self._has_let_go(uid, number))
        for uid in freed:
            self.forget(uid)
        after = {uuid: replace(device, used=0) for uuid, device in self.devices.items()}
        known = {uuid: bool(device.fault) for uuid, device in before.items()}
        lost = [
            device for device in self.devices.values() if device.fault and not known.get(device.uuid, False)
        ]
        back = [
            device for device in self.devices.values() if not device.fault and known.get(device.uuid, False)
        ]
        changed = bool(freed) or before != after or problem != snapshot.problem
        return News(tuple(lost), tuple(back), freed, changed)

    def _find_vanished(
        self, before: Mapping[str, Device], snapshot: Snapshot
    ) -> Iterator[tuple[str, Device]]:
        """GPUs that were there, or that a Pod has, and are not found any more.

        Instances that no Pod has, and a GPU that was divided into some, do not count as lost: a person has configured
        the machine so.
        """
        named = {
            uuid: Device(uuid, resource, "GPU")
            for assignment in self.held.values()
            for resource, uuids in (assignment.devices or {}).items()
            for uuid in uuids
        }
        for uuid, device in {**named, **before}.items():
            if uuid in self.devices:
                continue
            if uuid in named or not (uuid in snapshot.present or "/mig-" in device.resource):
                gone = replace(device, used=0, processes=(), number=None)
                yield uuid, replace(gone, fault=device.fault or "it is not found any more")

    def _note_owners(self) -> None:
        for device in self.devices.values():
            for pid in device.processes:
                if (uid := self._owner_of(pid)) in self.held:
                    self._pids.setdefault(uid, set()).add(pid)

    def _has_let_go(self, uid: str, number: int) -> bool:
        """Return whether none of an ended Pod's GPUs is held any more: no process, and memory that is stable."""
        release = self.releasing[uid]
        if number <= release.began:
            return False
        assignment = self.held[uid]
        uuids = assignment.uuids if assignment.devices is not None else tuple(self.devices)
        devices = [self.devices[uuid] for uuid in uuids if uuid in self.devices]
        empty = all(not self._remaining_processes(uid, device) for device in devices)
        used = {device.uuid: device.used for device in devices}
        steady = all(release.used.get(uuid, -1) <= amount for uuid, amount in used.items()) and bool(
            release.used or not used
        )
        release.used = used if empty else {}
        return empty and (steady or not self._alone)

    def _remaining_processes(self, uid: str, device: Device) -> set[int]:
        """Processes by which an ended Pod may still hold a device."""
        if device.fault:
            return set()
        if not self._alone:
            return set(device.processes) & self._pids.get(uid, set())
        # A record that a crash kept from being put aside: the processes are those of who has the device now.
        return set() if any(other != uid for other in self._living(device.uuid)) else set(device.processes)

    # ---- who has what

    def hold(self, assignment: Assignment) -> None:
        self.held[assignment.uid] = assignment

    def release(self, uid: str, began: int) -> None:
        """Note that a Pod has ended; `began` snapshots have begun by now. Once is enough."""
        if uid in self.held:
            self.releasing.setdefault(uid, Release(began))

    def forget(self, uid: str) -> None:
        self.held.pop(uid, None)
        self.releasing.pop(uid, None)
        self._pids.pop(uid, None)

    def holders(self, uuid: str) -> list[Assignment]:
        return [assignment for assignment in self.held.values() if uuid in assignment.uuids]

    def _living(self, uuid: str) -> list[str]:
        return [assignment.uid for assignment in self.holders(uuid) if assignment.uid not in self.releasing]

    def _slots(self, device: Device) -> int:
        """Count how often the device can be given now."""
        held = sum(assignment.uuids.count(device.uuid) for assignment in self.held.values())
        unknown = any(assignment.devices is None for assignment in self.held.values())
        foreign = self._alone and not held and bool(device.processes)
        if device.fault or self.problem or unknown or foreign:
            return 0
        return max(0, self.shares - held)

    # ---- amounts

    def amounts(self, *, healthy: bool) -> dict[str, float]:
        """The node's amounts by resource: all that is known, or only what can be given."""
        total: dict[str, float] = {}
        for device in self.devices.values():
            count = 0 if healthy and (device.fault or self.problem) else self.shares
            total[device.resource] = total.get(device.resource, 0.0) + count
        return total

    def sum_taken(self, promised: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the taken part of the healthy amounts; `promised` are the requests of bound Pods, by uid."""
        free = dict.fromkeys(self.amounts(healthy=True), 0.0)
        for device in self.devices.values():
            free[device.resource] += self._slots(device)
        for uid, requests in promised.items():
            for resource in free if uid not in self.held else ():
                free[resource] -= requests.get(resource, 0.0)
        return {resource: amount - free[resource] for resource, amount in self.amounts(healthy=True).items()}

    def choose(self, uid: str, pod: str, counts: Mapping[str, int]) -> Assignment:
        """Give a Pod what it asks for, the least shared devices first; Unavailable says why not."""
        chosen = {}
        for resource, count in counts.items():
            devices = [device for device in self.devices.values() if device.resource == resource]
            devices.sort(key=lambda device: (-self._slots(device), device.number or 0, device.uuid))
            most = max((self._slots(device) for device in devices), default=0)
            turns = [device.uuid for turn in range(most) for device in devices if self._slots(device) > turn]
            if len(turns) < count:
                raise Unavailable(
                    f"{count} {resource} {'is' if count == 1 else 'are'} not free: {self.explain(resource)}"
                )
            chosen[resource] = tuple(turns[:count])
        assignment = Assignment(uid, pod, chosen)
        self.hold(assignment)
        return assignment

    # ---- in words

    def state(self, device: Device) -> str:
        """State of a device, in a few words."""
        holders = self.holders(device.uuid)
        living = [holder.pod for holder in holders if holder.uid not in self.releasing]
        ended = [holder.pod for holder in holders if holder.uid in self.releasing]
        if device.fault:
            return f"lost: {device.fault}"
        if living:
            return f"held by {', '.join(living)}"
        if ended:
            return f"not yet let go by {', '.join(ended)}, which has ended"
        if self._alone and device.processes:
            numbers = ", ".join(map(str, device.processes[:3]))
            return f"used by process {numbers}, which is no Pod's"
        return "free"

    def explain(self, resource: str) -> str:
        """Say why no more of a resource can be had, and who has it."""
        if self.problem:
            return self.problem
        damaged = [assignment.pod for assignment in self.held.values() if assignment.devices is None]
        if damaged:
            return f"nobody knows which GPUs Pod {damaged[0]} has: its record is damaged"
        devices = [device for device in self.devices.values() if device.resource == resource]
        if devices:
            said = [f"{device.uuid} is {self.state(device)}" for device in devices[:SHOWN]]
            more = [f"{len(devices) - SHOWN} more"] if len(devices) > SHOWN else []
            return "; ".join([*said, *more])
        names = sorted({device.resource for device in self.devices.values()})
        if names:
            return f"this machine has no {resource}; it has {', '.join(names)}"
        return (
            "no GPU was found on this machine"
            if self.has_snapshot
            else "this machine's GPUs are being looked for"
        )
