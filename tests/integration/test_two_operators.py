"""Two operators on one API: one leads, and the other takes over at once when that one is killed."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from steelyard.operator.main import LEASE
from steelyard_common.types import Json
from steelyard_kube.resource import LEASES, MODELS
from tests.integration.conftest import Machine, is_true
from tests.integration.test_operator_kills import process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
LEADS = f"leads {LEASE}"


@pytest.fixture
def logs(machine: Machine, tmp_path: Path) -> Iterator[dict[int, Path]]:
    """The logs of two operators that run, by process number."""
    machine.up("platform", "operator")
    state = str(machine.state.path)
    with ExitStack() as stack:
        by_operator = {}
        for name in ("one", "two"):
            log = tmp_path / f"{name}.log"
            arguments = ("tests.integration.killing_operator", state, "0", str(tmp_path / f"{name}.calls"))
            by_operator[stack.enter_context(process(*arguments, log=log)).pid] = log
        yield by_operator


def make_model(name: str) -> Json:
    spec = {
        "id": "0" * 31 + "1",
        "account": "acme",
        "name": name,
        "artifact": {"kind": "Volume", "volume": {"files": []}},
        "source": {"kind": "Mock"},
        "resources": {"storage": "1Mi"},
        "storage": {"inputs": {}, "output": f"models/{name}"},
    }
    return {
        "apiVersion": MODELS.api_version,
        "kind": "Model",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def leaders(logs: dict[int, Path]) -> list[int]:
    """Returns the processes that have ever led."""
    return [pid for pid, log in logs.items() if LEADS in log.read_text()]


def changed_since(time: str) -> Callable[[Json], bool]:
    def changed(lease: Json) -> bool:
        return bool(lease["spec"]["renewTime"] != time)

    return changed


async def renewed(machine: Machine, times: int) -> Json:
    """The lease once its holder has renewed it so often; a second candidate tries as often in that time."""
    lease: Json = await machine.until(LEASES, LEASE, lambda obj: obj["spec"]["holderIdentity"])
    for _ in range(times):
        lease = await machine.until(LEASES, LEASE, changed_since(lease["spec"]["renewTime"]))
    return lease


async def test_of_two_operators_one_leads_and_the_other_takes_over(
    machine: Machine, logs: dict[int, Path]
) -> None:
    lease = await renewed(machine, 3)
    assert lease["spec"]["leaseTransitions"] == 0
    (leader,) = leaders(logs)
    await machine.create(MODELS, make_model("first"))
    await machine.until(MODELS, "first", is_true("Ready"))

    os.kill(leader, signal.SIGKILL)
    await machine.create(MODELS, make_model("second"))
    await machine.until(MODELS, "second", is_true("Ready"))
    lease = await renewed(machine, 1)
    assert lease["spec"]["leaseTransitions"] == 1
    assert sorted(leaders(logs)) == sorted(logs)
