"""Objects that ask for more than they weigh, of every kind that holds a Pod, by who may just create them.

The server answers others while it works on them and takes no memory for them. What it refuses, it refuses with the
field and the limit; what it takes and stores, it can start with again.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes_api.pod_holders import BOUNDED, LARGEST, SPECS, holders, make_spec
from tests.kubernetes_api.victim import ADMIN, MOST, Victim, message_of, victim_at

KINDS = holders(make_spec())
BUILT_IN = [kind for kind, (_, obj) in KINDS.items() if obj["apiVersion"] in ("v1", "apps/v1", "batch/v1")]
LIMIT = re.compile(
    r"(spec|template)\S*: (Too (many|long): .*\d+|Invalid value: .*cost budget)"
    r"|(spec|template)\S*: Invalid value: .*(at most|less than or equal to) \d+"
    r"|more than 1000 faults.*the last was (spec|template)"
    r"|limit is \d+"
)
"""Messages that name a field and its limit, or the limit of all fields."""
ALWAYS = ("containers", "init containers", "variables that double")


def attacks_on(kind: str) -> Iterable[str]:
    """Return all attacks for a Pod; for other kinds, which check Pods alike, the worst ones and every fourth."""
    turn = list(KINDS).index(kind) % 4
    return [
        name for number, name in enumerate(SPECS) if kind == "Pod" or name in ALWAYS or number % 4 == turn
    ]


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder: Path = tmp_path_factory.mktemp("victim")
    with victim_at(folder, "every kind") as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(victim: Victim) -> None:
    await victim.make_account("weak")
    await victim.make_account("creator", "create")
    await victim.warm_up()


async def create(victim: Victim, path: str, obj: object) -> tuple[int, str]:
    """Create an object while others ask whether the server is there; return the status and the message."""
    body = json.dumps(obj).encode()
    (answer,) = await victim.answers_to(victim.send("POST", path, victim.tokens["creator"], body))
    assert not isinstance(answer, BaseException), answer
    return answer[0], message_of(answer)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_that_asks_for_much_costs_others_nothing(victim: Victim, kind: str) -> None:
    for name in attacks_on(kind):
        path, obj = holders(SPECS[name]())[kind]
        before = victim.memory()
        status, message = await create(victim, path, obj)
        if status == 201:
            assert not (name in BOUNDED and kind in BUILT_IN), name
            await victim.ask("DELETE", f"{path}/attack?gracePeriodSeconds=0", ADMIN)
        else:
            assert (status, bool(LIMIT.search(message))) == (422, True), f"{name}: {status} {message}"
        assert victim.memory() - before < MOST, name


@pytest.mark.parametrize("kind", KINDS)
async def test_replicas_without_number_are_refused_or_taken_at_once(victim: Victim, kind: str) -> None:
    for replicas in (LARGEST, 10**9, LARGEST + 1, 10**30):
        path, obj = holders(make_spec(), replicas)[kind]
        before = victim.memory()
        status, message = await create(victim, path, obj)
        if status == 201:
            await victim.ask("DELETE", f"{path}/attack?gracePeriodSeconds=0", ADMIN)
        else:
            assert status in (400, 422), message
            assert re.search("replicas|completions|parallelism|json", message), message
        assert victim.memory() - before < MOST


async def test_an_app_wrapper_has_no_app_wrappers(victim: Victim) -> None:
    """Each level would hold all levels below it once more."""
    path, obj = holders(make_spec())["AppWrapper"]
    nested = {**obj, "spec": {"components": [{"template": obj}]}}
    status, message = await create(victim, path, nested)
    assert (status, "spec.components[0].template.kind: Forbidden" in message) == (422, True), message


async def test_the_server_starts_again_with_what_it_has_taken(tmp_path: Path) -> None:
    taken = itertools.cycle(name for name in SPECS if name not in BOUNDED)
    stored = []
    with victim_at(tmp_path, "every kind") as first:
        before = first.memory()
        await prepare(first)
        for kind, name in zip(KINDS, taken, strict=False):
            path, obj = holders(SPECS[name]())[kind]
            if (await create(first, path, obj))[0] == 201:
                stored.append(path)
    assert len(stored) > len(KINDS) / 2
    with victim_at(tmp_path, "built-in kinds") as again:
        for path in stored:
            assert (await again.ask("GET", f"{path}/attack", ADMIN))[0] == 200
        assert again.memory() - before < MOST
