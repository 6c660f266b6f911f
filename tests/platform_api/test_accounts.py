"""Accounts: names, permissions, tokens, and that nobody hands on more than they have."""

from datetime import timedelta

import httpx
import jwt
import pytest

from steelyard.api.settings import ApiSettings
from steelyard.schema.account import AccessGrant
from steelyard.types import Json
from tests.platform_api.world import World, grant, make_world, model

EXPIRES = "2030-01-02T00:00:00Z"
READ = {"resources": ["models"], "functions": ["get", "query"], "accounts": ["acme"]}
WRITE = {"resources": ["models"], "functions": ["*"], "accounts": ["acme"]}
ALL = {"resources": ["*"], "functions": ["*"], "accounts": ["*"], "entities": ["*"]}


async def account(world: World, *permissions: Json) -> Json:
    made = (await world.admin.post("/accounts", json={"name": f"n-{len(permissions)}"})).json()
    path = f"/accounts/{made['id']}/permissions"
    given = await world.admin.put(path, json={"permissions": list(permissions)})
    assert given.status_code == 200
    assert (await world.admin.get(path)).json() == given.json()
    return dict(made)


async def minted(world: World, made: Json, *grants: Json, expires: str = EXPIRES) -> httpx.Response:
    return await world.admin.post(
        f"/accounts/{made['id']}/tokens", json={"grants": list(grants), "expires": expires}
    )


async def test_an_account_and_its_token(world: World) -> None:
    made = await account(world, WRITE)
    got = (await world.admin.get(f"/accounts/{made['id']}")).json()
    assert (got["id"], got["name"], got["status"]) == (made["id"], made["name"], "Active")
    assert [
        account["id"]
        for account in (await world.admin.get("/accounts", params={"name": made["name"]})).json()
    ] == [made["id"]]
    token = (await minted(world, made, READ)).json()
    entity = await world.created("models", **model())
    async with world.client(token) as client:
        assert (await client.get(f"/models/{entity['id']}")).status_code == 200
        assert (await client.put(f"/models/{entity['id']}/delete")).status_code == 403
    (key,) = (await world.admin.get(f"/accounts/{made['id']}/tokens")).json()
    assert "secret" not in key
    assert token not in str(key)
    assert key["subject"] == f"accounts/{made['id']}"
    assert (await world.admin.get(f"/accounts/{made['id']}/tokens/{key['id']}")).json() == key


async def test_an_account_has_at_most_so_many_tokens() -> None:
    async with make_world(settings=ApiSettings(account_tokens=2)) as world:
        made = await account(world, WRITE)
        path = f"/accounts/{made['id']}/tokens"
        assert [(await minted(world, made, READ)).status_code for _ in range(2)] == [200, 200]
        refused = await minted(world, made, READ)
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
        assert "has 2 tokens that are valid" in refused.json()["detail"]
        (key, _) = (await world.admin.get(path)).json()
        await world.admin.delete(f"{path}/{key['id']}")
        assert (await minted(world, made, READ)).status_code == 200


async def test_a_revoked_token_counts_no_more(world: World) -> None:
    made = await account(world, WRITE)
    tokens = [(await minted(world, made, READ)).json() for _ in range(3)]
    clients = [world.client(token) for token in tokens]
    (first, *_) = (await world.admin.get(f"/accounts/{made['id']}/tokens")).json()
    assert [(await client.get("/models")).status_code for client in clients] == [200] * 3
    path = f"/accounts/{made['id']}/tokens"
    assert (await world.admin.delete(f"{path}/{first['id']}")).status_code == 200
    assert sorted([(await client.get("/models")).status_code for client in clients]) == [200, 200, 401]
    assert (await world.admin.delete(f"{path}/{first['id']}")).status_code == 404
    await world.admin.delete(path)
    assert [(await client.get("/models")).status_code for client in clients] == [401] * 3


async def test_what_the_account_may_now_counts(world: World) -> None:
    made = await account(world, WRITE)
    async with world.client((await minted(world, made, WRITE)).json()) as client:
        assert (await client.get("/models")).status_code == 200
        await world.admin.put(f"/accounts/{made['id']}/permissions", json={"permissions": []})
        assert (await client.get("/models")).status_code == 403
        assert (await world.admin.put(f"/accounts/{made['id']}/delete")).json()["status"] == "Deleted"
        assert (await client.get("/models")).status_code == 401


async def test_a_token_ends(world: World) -> None:
    made = await account(world, WRITE)
    async with world.client((await minted(world, made, READ)).json()) as client:
        world.engines.clock.now += timedelta(days=2)
        late = await client.get("/models")
        assert (late.status_code, late.json()["reason"]) == (401, "Unauthenticated")
        assert late.headers["www-authenticate"] == "Bearer"
    past = await minted(world, made, READ)
    assert (past.status_code, past.json()["field"]) == (422, "expires")


@pytest.mark.parametrize("grants", [[WRITE], [ALL], [READ, WRITE], [{**READ, "accounts": ["*"]}]])
async def test_a_token_is_within_what_its_account_may_whoever_makes_it(
    world: World, grants: list[Json]
) -> None:
    made = await account(world, READ)
    refused = await minted(world, made, *grants)
    assert (refused.status_code, refused.json()["field"]) == (403, "grants")


async def test_nobody_hands_on_more_than_they_have(world: World) -> None:
    made = await account(world, WRITE, READ)
    editor = await world.holder(grant("accounts", ["get", "edit"], ["*"]), AccessGrant.parse(READ))
    body = {"grants": [WRITE], "expires": EXPIRES}
    path = f"/accounts/{made['id']}"
    for response in (
        await editor.post(f"{path}/tokens", json=body),
        await editor.put(f"{path}/permissions", json={"permissions": [WRITE]}),
        await editor.put(f"{path}/permissions", json={"permissions": [ALL]}),
    ):
        assert response.status_code == 403
    assert (await editor.post(f"{path}/tokens", json={**body, "grants": [READ]})).status_code == 200


async def test_names_are_one_accounts_alone(world: World) -> None:
    assert (await world.admin.post("/accounts", json={"name": "x"})).status_code == 200
    again = await world.admin.post("/accounts", json={"name": "x"})
    assert (again.status_code, again.json()["field"]) == (409, "name")
    bad = await world.admin.post("/accounts", json={"name": "no spaces"})
    assert (bad.status_code, bad.json()["field"]) == (422, "name")


async def test_a_repeated_request_makes_one_account(world: World) -> None:
    key = {"Idempotency-Key": "once"}
    made = [await world.admin.post("/accounts", json={"name": "x"}, headers=key) for _ in range(2)]
    assert made[0].json() == made[1].json()
    other = await world.admin.post("/accounts", json={"name": "y"}, headers=key)
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    assert "'once'" in other.json()["detail"]
    creator = await world.holder(grant("accounts", ["create"], ["*"]))
    assert (await creator.post("/accounts", json={"name": "y"}, headers=key)).status_code == 200


async def test_a_suspended_account_is_let_in_no_more_until_it_is_reactivated(world: World) -> None:
    made = await account(world, WRITE)
    path = f"/accounts/{made['id']}"
    async with world.client((await minted(world, made, WRITE)).json()) as client:
        for _ in range(2):
            assert (await world.admin.put(f"{path}/suspend")).json()["status"] == "Suspended"
        refused = await client.get("/models")
        assert (refused.status_code, f"account {made['name']} is Suspended") == (
            401,
            refused.json()["detail"],
        )
        assert (await world.admin.put(f"{path}/reactivate")).json()["status"] == "Active"
        assert (await client.get("/models")).status_code == 200
    await world.admin.put(f"{path}/delete")
    for verb in ("suspend", "reactivate"):
        gone = await world.admin.put(f"{path}/{verb}")
        assert (gone.status_code, "is Deleted" in gone.json()["detail"]) == (409, True)


async def test_a_new_signing_key_leaves_earlier_tokens_good(world: World) -> None:
    made = await account(world, WRITE)
    before = (await minted(world, made, READ)).json()
    kid = (await world.admin.post("/accounts/signing-keys")).json()
    after = (await minted(world, made, READ)).json()
    assert jwt.get_unverified_header(before)["kid"] != kid == jwt.get_unverified_header(after)["kid"]
    for token in (before, after):
        async with world.client(token) as client:
            assert (await client.get("/models")).status_code == 200
    client = await world.holder(grant("accounts", ["*"], ["*"]))
    assert (await client.post("/accounts/signing-keys")).status_code == 403
    world.engines.clock.now += timedelta(days=2)
    async with world.client(before) as client:
        assert (await client.get("/models")).status_code == 401


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("nonsense", "three words joined by dots"),
        ("a.b.c", "three words joined by dots"),
        ("cut", "copied whole"),
        ("changed", "its signature does not fit"),
        ("foreign", "signed with a key that is not ours"),
    ],
)
async def test_what_is_wrong_with_a_token_is_said_in_words(world: World, token: str, said: str) -> None:
    good = (await minted(world, await account(world, WRITE), READ)).json()
    foreign = jwt.encode({"jti": "x"}, "x" * 32, algorithm="HS256", headers={"kid": "x"})
    bad = {"cut": good[:-8], "changed": f"{good[:-8]}AAAAAAAA", "foreign": foreign}.get(token, token)
    async with world.client(bad) as client:
        refused = await client.get("/models")
    assert (refused.status_code, said in refused.json()["detail"]) == (401, True), refused.text


async def test_a_refused_token_says_what_the_account_may_and_what_changes_that(world: World) -> None:
    made = await account(world)
    refused = (await minted(world, made, READ)).json()["detail"]
    assert "nothing yet" in refused
    assert f"PUT /v0/accounts/{made['id']}/permissions" in refused
    made = await account(world, READ)
    assert "get,query of models of acme" in (await minted(world, made, WRITE)).json()["detail"]


async def test_who_sees_one_account_sees_no_other(world: World) -> None:
    one, two = await account(world, READ), await account(world, READ, READ)
    client = await world.holder(grant("accounts", ["get", "query", "edit"], [], [one["id"]]))
    assert [account["id"] for account in (await client.get("/accounts")).json()] == [one["id"]]
    assert (await client.get(f"/accounts/{one['id']}")).status_code == 200
    for path in (f"/accounts/{two['id']}", f"/accounts/{two['id']}/tokens", "/accounts/none"):
        assert (await client.get(path)).status_code == 404


async def test_labels_of_an_account(world: World) -> None:
    blue, other = await account(world, READ), await account(world, READ, WRITE)
    path = f"/accounts/{blue['id']}/labels"
    assert "labels" not in blue
    edited = await world.admin.patch(path, json={"labels": {"team": "blue", "tier": "gold"}})
    assert (edited.status_code, edited.json()) == (200, {"labels": {"team": "blue", "tier": "gold"}})
    edited = await world.admin.patch(path, json={"labels": {"tier": None, "gone": None}})
    assert edited.json() == {"labels": {"team": "blue"}}
    assert (await world.admin.get(f"/accounts/{blue['id']}")).json()["labels"] == {"team": "blue"}
    assert [one["id"] for one in (await with_labels(world, '{"team": "blue"}')).json()] == [blue["id"]]
    assert (await with_labels(world, '{"team": "red"}')).json() == []
    assert {one["id"] for one in (await with_labels(world, "")).json()} >= {blue["id"], other["id"]}


async def with_labels(world: World, labels: str) -> httpx.Response:
    return await world.admin.get("/accounts", params={"labels": labels})


async def test_labels_of_an_account_are_bounded_as_an_entitys(world: World) -> None:
    path = f"/accounts/{(await account(world, READ))['id']}"
    for labels in ({"a b": "c"}, {"a": "b c"}, {"a": "v" * 64}, {"dyff.io/owner": "x"}, {"steelyard/x": "y"}):
        refused = await world.admin.patch(f"{path}/labels", json={"labels": labels})
        assert (refused.status_code, refused.json()["field"].partition(".")[0]) == (422, "labels")
    thousand = {f"k{number}": "v" for number in range(1000)}
    assert (await world.admin.patch(f"{path}/labels", json={"labels": thousand})).status_code == 200
    full = await world.admin.patch(f"{path}/labels", json={"labels": {"more": "v"}})
    assert (full.status_code, full.json()["field"]) == (422, "labels")
    assert (await with_labels(world, "a=b")).status_code == 422
    await world.admin.put(f"{path}/delete")
    assert (await world.admin.patch(f"{path}/labels", json={"labels": {"k1": None}})).status_code == 409
