"""Server-side apply: each sequence of requests is answered as a real server answered it."""

import asyncio

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.apply_answers import answers, recorded, sequences
from tests.kubernetes_api.apply_cases import APPLY, CONFIG_MAP, Step, apply, config_map
from tests.kubernetes_api.apply_random import random_steps
from tests.kubernetes_api.conftest import REAL, Server

SEQUENCES = sequences()
MORE = range(100, 160)


@pytest.mark.parametrize("name", SEQUENCES)
async def test_answers_are_those_of_a_real_server(api: Api, name: str) -> None:
    given, wanted = await answers(api, SEQUENCES[name]), recorded()[name]
    for step, (answer, real) in zip(SEQUENCES[name], zip(given, wanted, strict=True), strict=True):
        assert answer == real, step


@pytest.mark.skipif(not REAL, reason="compares both servers")
@pytest.mark.parametrize("seed", MORE)
async def test_random_sequences_have_the_same_answers_on_both(
    api: Api, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    steps = random_steps(seed)
    server = Server(tmp_path_factory.mktemp("kubernetes"))
    own = Api(server.kubeconfig)
    try:
        both = await asyncio.gather(answers(own, steps), answers(api, steps))
    finally:
        await own.close()
        server.stop()
    for step, answer, real in zip(steps, *both, strict=True):
        assert answer == real, step


async def test_an_apply_that_changes_nothing_is_no_event(api: Api, core: str) -> None:
    path, type_ = f"{core}/configmaps/c?fieldManager=one", APPLY
    versions = {
        (await api.request("PATCH", path, config_map({"a": "1"}), type=type_)).ok().version for _ in range(3)
    }
    assert len(versions) == 1


async def test_an_object_without_managers_costs_nothing(api: Api, core: str, embedded: Server) -> None:
    """Controllers create and update without naming themselves: their objects stay as small as they were."""
    made = (await api.post(f"{core}/configmaps", config_map({"a": "1"}))).ok(201).json
    changed = (await api.merge(f"{core}/configmaps/c?fieldManager=x", {"data": {"a": "2"}})).ok(200).json
    assert "managedFields" not in made["metadata"] | changed["metadata"]


ALIASES = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (at + 1, at + 1, *[at] * 9) for at in range(97, 105)
)
HOSTILE: dict[str, bytes] = {
    "aliases": ALIASES,
    "an alias of itself": b"a: &a [*a]",
    "depth": b"[" * 100_000,
    "depth of JSON": b'{"a":' * 500 + b"1" + b"}" * 500,
    "a tag": b"a: !!python/object/apply:os.system [true]",
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_are_refused(api: Api, core: str, name: str, embedded: Server) -> None:
    path = f"{core}/configmaps/c?fieldManager=one"
    assert (await api.request("PATCH", path, HOSTILE[name], type=APPLY)).status == 400
    (await api.get(f"{core}/configmaps")).ok(200)


STEPS: list[Step] = [apply(CONFIG_MAP, "one", config_map({"a": "1"}))]


async def test_the_answers_say_who_manages_what(api: Api) -> None:
    """The comparison above is one of managers, too: it would not miss a server that keeps none."""
    (answer,) = await answers(api, STEPS)
    managers: Json = answer["managers"]
    assert managers == {"one Apply ": ["v1", True, {"f:data": {"f:a": {}}}]}
