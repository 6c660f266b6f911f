"""Tests of who has which GPU: which are given, which are held, and when they are free again."""

import json
from pathlib import Path

import pytest

from steelyard_local_kubernetes.gpus import assignments
from steelyard_local_kubernetes.gpus.assignments import Assignment
from steelyard_local_kubernetes.gpus.devices import Device, Snapshot
from steelyard_local_kubernetes.gpus.ledger import Ledger, Unavailable

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def device(uuid: str, *pids: int, used: int = 0, fault: str = "", resource: str = GPU) -> Device:
    return Device(uuid, resource, "H100", 80 << 30, used, pids, fault=fault)


def snapshot(*devices: Device) -> Snapshot:
    return Snapshot(devices, frozenset(entry.uuid for entry in devices if entry.resource == GPU))


class Machine:
    """A ledger, and snapshots of the machine one after another."""

    def __init__(self, *devices: Device, shares: int = 1, owners: dict[int, str] | None = None) -> None:
        self.ledger, self.number = Ledger(shares, owner_of=lambda pid: (owners or {}).get(pid, "")), 0
        self.see(*devices)

    def see(self, *devices: Device, problem: str = "") -> tuple[str, ...]:
        self.number += 1
        return self.ledger.apply_snapshot(
            Snapshot(problem=problem) if problem else snapshot(*devices), self.number
        ).freed

    def give(self, uid: str, count: int = 1, resource: str = GPU) -> tuple[str, ...]:
        return self.ledger.choose(uid, f"default/{uid}", {resource: count}).uuids

    def end(self, uid: str) -> None:
        self.ledger.release(uid, self.number)

    def free(self, resource: str = GPU) -> float:
        return self.ledger.amounts(healthy=True).get(resource, 0.0) - self.ledger.sum_taken({}).get(
            resource, 0.0
        )


def test_a_gpu_is_given_once() -> None:
    machine = Machine(device("a"), device("b"))
    assert {machine.give("one"), machine.give("two")} == {("a",), ("b",)}
    with pytest.raises(Unavailable, match="held by default/one"):
        machine.give("three")


def test_a_gpu_of_an_ended_pod_is_held_until_no_process_holds_it() -> None:
    machine = Machine(device("a"))
    machine.give("one")
    machine.see(device("a", 7, used=50))
    machine.end("one")
    assert machine.see(device("a", 7, used=50)) == ()
    assert "not yet let go by default/one" in machine.ledger.explain(GPU)
    assert machine.see(device("a", used=50)) == (), "the first snapshot without a process"
    assert machine.see(device("a", used=20)) == (), "its memory still comes back"
    assert machine.free() == 0
    assert machine.see(device("a", used=20)) == ("one",)
    assert machine.free() == 1


def test_a_snapshot_that_began_before_the_pods_end_frees_nothing() -> None:
    machine = Machine(device("a"))
    machine.give("one")
    machine.ledger.release("one", 3)  # two snapshots are under way
    assert [machine.see(device("a")) for _ in range(4)] == [(), (), (), ("one",)]


def test_while_nothing_is_found_out_nothing_is_given() -> None:
    machine = Machine(device("a"), device("b"))
    machine.give("one")
    machine.end("one")
    for _ in range(5):
        assert machine.see(problem="the driver hangs") == ()
    assert machine.free() == 0
    assert machine.ledger.explain(GPU) == "the driver hangs"
    machine.see(device("a"), device("b"))
    assert machine.free() == 1


def test_a_gpu_that_anothers_process_uses_is_not_given() -> None:
    machine = Machine(device("a", 99))
    assert machine.free() == 0
    assert "a is used by process 99, which is no Pod's" in machine.ledger.explain(GPU)
    machine.see(device("a"))
    assert machine.free() == 1


@pytest.mark.parametrize("after", [(device("b"),), (device("a", fault="GPU is lost"), device("b"))])
def test_a_lost_gpu_is_given_to_no_pod_and_takes_no_other_with_it(after: tuple[Device, ...]) -> None:
    machine = Machine(device("a"), device("b"))
    assert machine.give("one") == ("a",)
    machine.see(*after)
    assert machine.ledger.amounts(healthy=False) == {GPU: 2}
    assert machine.ledger.amounts(healthy=True) == {GPU: 1}
    assert machine.free() == 1
    assert machine.give("two") == ("b",)
    machine.end("one")
    machine.see(*after)
    machine.see(*after)
    assert "one" not in machine.ledger.held
    assert machine.free() == 0


def test_a_gpu_that_was_given_up_for_lost_may_come_back() -> None:
    machine = Machine(device("a"))
    lost = machine.ledger.apply_snapshot(snapshot(), 2)
    back = machine.ledger.apply_snapshot(snapshot(device("a")), 3)
    assert [[entry.uuid for entry in news] for news in (lost.lost, lost.back, back.lost, back.back)] == [
        ["a"], [], [], ["a"],
    ]  # fmt: skip
    assert machine.free() == 1


def test_what_was_promised_to_bound_pods_is_not_free() -> None:
    machine = Machine(device("a"), device("b"))
    machine.give("one")
    assert machine.ledger.sum_taken({"one": {GPU: 1.0}, "two": {GPU: 1.0, "cpu": 1.0}}) == {GPU: 2.0}


def test_a_gpu_that_was_divided_is_no_loss_unless_a_pod_has_it() -> None:
    parts = (device("m1", resource=MIG), device("m2", resource=MIG))
    machine = Machine(device("a"))
    machine.ledger.apply_snapshot(Snapshot(parts, frozenset({"a"})), 2)
    assert machine.ledger.amounts(healthy=False) == {MIG: 2}
    machine.number = 2
    assert machine.give("one", resource=MIG) == ("m1",)
    machine.ledger.apply_snapshot(Snapshot((device("a"),), frozenset({"a"})), 3)
    assert machine.ledger.amounts(healthy=True) == {MIG: 0, GPU: 1}
    assert machine.ledger.devices["m1"].fault


def test_shares_are_given_evenly_and_freed_by_who_had_them() -> None:
    machine = Machine(device("a"), device("b"), shares=2, owners={1: "one", 2: "three"})
    given = [machine.give(uid)[0] for uid in ("one", "two", "three", "four")]
    assert sorted(given) == ["a", "a", "b", "b"]
    assert set(given[:2]) == {"a", "b"}
    assert machine.free() == 0
    machine.see(device("a", 1, 2), device("b"))
    machine.end("one")
    assert machine.see(device("a", 1, 2), device("b")) == ()
    assert machine.see(device("a", 2), device("b")) == ("one",), "the other's process may go on"
    assert machine.free() == 1


def test_a_damaged_record_holds_what_no_other_is_known_to_have(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    assignments.write(folder, Assignment("one", "default/one", {GPU: ("a",)}))
    assert assignments.read(folder) == Assignment("one", "default/one", {GPU: ("a",)})
    for damage in (
        b"",
        b'{"uid": "one"',
        b"[]",
        b'{"uid": "two", "devices": {}}',
        b'{"uid": "one", "devices": 1}',
    ):
        (folder / assignments.FILE).write_bytes(damage)
        record = assignments.read(folder)
        assert record is not None
        assert record.devices is None
    machine = Machine(device("a"), device("b"))
    machine.ledger.hold(Assignment("one", "one", None))
    assert machine.free() == 0
    assert "its record is damaged" in machine.ledger.explain(GPU)
    machine.end("one")
    machine.see(device("a"), device("b", 7))
    machine.see(device("a"), device("b", 7))
    assert machine.free() == 0, "the process may be the Pod's"
    machine.see(device("a"), device("b"))
    machine.see(device("a"), device("b"))
    assert machine.free() == 2


def test_containers_of_a_pod_have_gpus_of_their_own_and_init_containers_the_same() -> None:
    def container(name: str) -> dict[str, str]:
        return {"name": name}

    pod = {"spec": {"initContainers": [container("init")], "containers": [container("x"), container("y")]}}
    asks = {"init": {GPU: 2}, "x": {GPU: 1}, "y": {GPU: 2}}
    assignment = Assignment("u", "default/p", {GPU: ("a", "b", "c")})
    given = {name: assignments.container_devices(pod, name, assignment, asks) for name in asks}
    assert given == {"init": ("a", "b"), "x": ("a",), "y": ("b", "c")}


def test_a_record_is_put_aside_when_its_gpus_are_free(tmp_path: Path) -> None:
    assignments.write(tmp_path, Assignment(tmp_path.name, "default/one", {GPU: ("a",)}))
    assignments.free(tmp_path)
    assert assignments.read(tmp_path) is None
    assert json.loads((tmp_path / assignments.FREED).read_text())["devices"] == {GPU: ["a"]}
    assignments.free(tmp_path)  # of a folder that is gone, or a second time
