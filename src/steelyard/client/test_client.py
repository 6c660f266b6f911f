"""The client as its users call it: entities, errors, and both forms alike."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

from steelyard.client import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthenticated,
    UnexpectedAnswer,
    async_collections,
    collections,
)
from steelyard.client.calls import Calls
from steelyard.client.conftest import Ask
from steelyard.testing.platform import FakePlatform, refused
from steelyard_schema.dataset import Dataset
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.requests import DatasetCreateRequest

FIELDS: dict[str, Any] = {
    "account": "acme",
    "name": "digits",
    "artifacts": [{"path": "a.parquet"}],
    "schema": {"arrowSchema": "AAAA"},
}


def test_a_request_and_its_fields_are_the_same(ask: Ask, fake: FakePlatform) -> None:
    request = DatasetCreateRequest.parse(FIELDS)
    one = ask(fake, lambda client: client.datasets.create(request))
    other = ask(fake, lambda client: client.datasets.create(**FIELDS, labels=None))
    assert isinstance(one, Dataset)
    assert one.dump() | {"id": other.id} == other.dump() | {"creationTime": one.dump()["creationTime"]}


def test_an_evaluation_says_how_long_an_answer_may_take() -> None:
    calls = Calls("evaluations", Evaluation)
    for given, sent in ({}, 600), ({"batchSize": 5}, 600), ({"requestTimeoutSeconds": 7}, 7):
        assert calls.create(None, {"client": given}, None).json["client"] == {
            **given,
            "requestTimeoutSeconds": sent,
        }


def test_an_entity_is_found_labelled_documented_and_deleted(ask: Ask, fake: FakePlatform) -> None:
    id = ask(fake, lambda client: client.datasets.create(**FIELDS)).id
    ask(fake, lambda client: client.datasets.label(id, {"tier": "gold", "old": None}))
    said = ask(fake, lambda client: client.datasets.edit_documentation(id, title="T", summary="S"))
    assert (said.title, said.summary, said.fullPage) == ("T", "S", None)
    ask(fake, lambda client: client.datasets.edit_documentation(id, summary=None))
    assert ask(fake, lambda client: client.datasets.documentation(id)).summary is None
    assert ask(fake, lambda client: client.datasets.get(id)).labels == {"tier": "gold"}
    assert ask(fake, lambda client: client.datasets.delete(id)).status == "Deleted"


def test_an_entity_is_published_marked_and_private_again(ask: Ask, fake: FakePlatform) -> None:
    id = ask(fake, lambda client: client.datasets.create(**FIELDS)).id
    for access, labels in (
        ("public", {"dyff.io/access": "public"}),
        ("internal", {"dyff.io/access": "internal"}),
        ("private", {}),
    ):
        ask(fake, lambda client, access=access: client.datasets.publish(id, access))
        assert ask(fake, lambda client: client.datasets.get(id)).labels == labels


def test_an_unknown_access_is_reported_without_a_request(ask: Ask, fake: FakePlatform) -> None:
    for access in ("open", "preview", None):
        with pytest.raises(ValueError, match="should be public, internal or private"):
            ask(fake, lambda client, access=access: client.datasets.publish("0" * 32, access))
    assert fake.requests == []


def test_a_key_of_ones_own_makes_one_entity(ask: Ask, fake: FakePlatform) -> None:
    for _ in range(2):
        ask(fake, lambda client: client.datasets.create(**FIELDS, idempotency_key="mine"))
    assert len(fake.entities("datasets")) == 1


REFUSALS = {
    "by reason": (refused(409, "Forbidden"), Forbidden, "Forbidden"),
    "by status, where there is no reason": (lambda _: _plain(409), Conflict, "Conflict"),
    "422": (refused(422, "Invalid"), Invalid, "Invalid"),
    "a reason of tomorrow": (refused(403, "TooEarly"), Forbidden, "TooEarly"),
}


def _plain(status: int) -> Any:
    import httpx

    return httpx.Response(status, html="<html>a proxy's page</html>")


@pytest.mark.parametrize(("trouble", "error", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_raised(trouble: Any, error: Any, reason: str, ask: Ask, fake: FakePlatform) -> None:
    fake.trouble.append(trouble)
    with pytest.raises(error) as caught:
        ask(fake, lambda client: client.datasets.get("0" * 32))
    assert caught.value.reason == reason
    assert "<html>" not in str(caught.value)


def test_a_refusal_of_a_model_server_says_why(ask: Ask, fake: FakePlatform) -> None:
    import httpx

    error = {"message": "the cap of 5 USD in total is reached", "type": "service_stopped"}
    fake.trouble.append(lambda _: httpx.Response(402, json={"error": error}))
    with pytest.raises(ApiError, match=r"the cap of 5 USD in total is reached \(402\)") as caught:
        ask(fake, lambda client: client.datasets.get("0" * 32))
    assert caught.value.status == 402


def test_a_refusal_names_the_field(ask: Ask, fake: FakePlatform) -> None:
    with pytest.raises(NotFound, match=r"there is no Dataset 0+ \(404\)") as caught:
        ask(fake, lambda client: client.datasets.get("0" * 32))
    assert (caught.value.field, caught.value.status) == ("id", 404)


def test_a_fault_of_the_platform_names_the_request(ask: Ask, fake: FakePlatform) -> None:
    fake.trouble.append(refused(500, "Internal"))
    with pytest.raises(Exception, match=r"500, request [0-9a-f]{32}"):
        ask(fake, lambda client: client.datasets.get("0" * 32))


ODD = {
    "no JSON": b"<html>hello</html>",
    "another object": b'{"hello": "world"}',
    "nothing": b"",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_another_programs_answer_is_not_taken_for_an_entity(
    body: bytes, ask: Ask, fake: FakePlatform
) -> None:
    import httpx

    fake.trouble.append(lambda _: httpx.Response(200, content=body))
    with pytest.raises(UnexpectedAnswer, match="does the endpoint end in /v0"):
        ask(fake, lambda client: client.datasets.get("0" * 32))


def test_a_redirect_is_not_followed_with_the_token(ask: Ask, fake: FakePlatform) -> None:
    import httpx

    fake.trouble.append(lambda _: httpx.Response(307, headers={"location": "http://elsewhere/"}))
    with pytest.raises(Exception, match="307"):
        ask(fake, lambda client: client.datasets.delete("0" * 32))
    assert len(fake.requests) == 1


def test_a_newer_platform_may_say_more(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))
    fake._entities[entity.id]["artifacts"][0]["novelty"] = fake._entities[entity.id]["novelty"] = {"a": 1}
    assert ask(fake, lambda client: client.datasets.get(entity.id)) == entity


# ---- inference sessions


def make_session(fake: FakePlatform) -> str:
    id = "5" * 32
    fake._entities[id] = {"id": id, "kind": "InferenceSession", "status": "Admitted", "labels": {}}
    return id


def test_a_session_is_asked_with_a_token_of_its_own(ask: Ask, fake: FakePlatform) -> None:
    id = make_session(fake)
    answer = ask(fake, lambda client: client.inferencesessions.infer(id, "/v1/x y", {"a": [1]}))
    assert answer == {"endpoint": "v1/x y", "asked": {"a": [1]}}


def test_a_sessions_token_that_is_over_is_replaced_once() -> None:
    fake = FakePlatform()
    id = make_session(fake)
    with fake.client() as client:
        client.inferencesessions.infer(id, "x", 1)
        client.inferencesessions.infer(id, "x", 1)
        assert [request.url.path for request in fake.requests].count(f"/v0/inferencesessions/{id}/token") == 1
        fake.session_token = "another"
        client.inferencesessions.infer(id, "x", 1)
        with pytest.raises(Unauthenticated):
            client.inferencesessions.infer(id, "x", 1, token="wrong")


def test_whether_a_session_is_ready(ask: Ask, fake: FakePlatform) -> None:
    id = make_session(fake)
    assert ask(fake, lambda client: client.inferencesessions.ready(id)) is False
    fake._entities[id]["labels"]["ready"] = ""
    assert ask(fake, lambda client: client.inferencesessions.ready(id)) is True


# ---- both forms

CLASSES = [
    (member, getattr(async_collections, f"Async{name}"))
    for name, member in vars(collections).items()
    if inspect.isclass(member) and member.__module__ == collections.__name__
]


def public(made: type) -> dict[str, Any]:
    return {
        name: member for name, member in vars(made).items() if inspect.isfunction(member) and name[0] != "_"
    }


@pytest.mark.parametrize(("sync", "other"), CLASSES, ids=[sync.__name__ for sync, _ in CLASSES])
def test_both_forms_have_the_same_methods(sync: type, other: type) -> None:
    ours, theirs = public(sync), public(other)
    assert list(ours) == list(theirs)
    for name, method in ours.items():
        assert _parameters(method) == _parameters(theirs[name]), name
        assert method.__doc__, name
        assert method.__doc__ == theirs[name].__doc__, name


def _parameters(method: Any) -> list[str]:
    return [str(parameter) for parameter in inspect.signature(method).parameters.values()]


def test_both_clients_have_the_same_collections(fake: FakePlatform) -> None:
    with fake.client() as client:
        names = {name: type(attribute).__name__ for name, attribute in vars(client).items() if name[0] != "_"}
        others = {
            name: type(attribute).__name__
            for name, attribute in vars(fake.async_client()).items()
            if name[0] != "_"
        }
    assert {name: kind.removeprefix("Async") for name, kind in others.items()} == names


def test_the_client_needs_no_server_and_no_arrow() -> None:
    heavy = [
        *("aiohttp", "cryptography", "fastapi", "jinja2", "jwt", "numpy", "obstore", "orjson", "pandas"),
        *("prometheus_client", "pyarrow", "ray", "scipy", "sklearn", "starlette", "typer", "uvicorn", "yaml"),
    ]
    program = (
        "import sys, steelyard.client, steelyard.client.presets\n"
        "steelyard.client.Client('http://127.0.0.1:1/v0', 'token').close()\n"
        "ours = {name for name in sys.modules if name.startswith('steelyard')}\n"
        "ours = {name if name.startswith('steelyard_common') else '.'.join(name.split('.')[:2]) for name in ours}\n"
        "ours = {name.partition('.')[0] if name.startswith('steelyard_schema') else name for name in ours}\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules)), sorted(ours))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "[] ['steelyard', 'steelyard.client', 'steelyard_common', 'steelyard_common.backoff', "
        "'steelyard_common.errors', 'steelyard_common.types', 'steelyard_common.whole_files', 'steelyard_schema']"
    )
