"""Accounts: names, permissions, tokens, and that no caller grants more than it has."""

from datetime import timedelta

import httpx
import jwt
import pytest
from pydantic import SecretStr

from steelyard.accounts.tokens import admit
from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_schema.account import AccessGrant
from tests.platform_api.memory_platform import MemoryPlatform, grant, make_platform, model

EXPIRES = "2030-01-02T00:00:00Z"
READ = {"resources": ["models"], "functions": ["get", "query"], "accounts": ["acme"]}
WRITE = {"resources": ["models"], "functions": ["*"], "accounts": ["acme"]}
ALL = {"resources": ["*"], "functions": ["*"], "accounts": ["*"], "entities": ["*"]}


async def account(platform: MemoryPlatform, *permissions: Json) -> Json:
    made = (await platform.admin.post("/accounts", json={"name": f"n-{len(permissions)}"})).json()
    path = f"/accounts/{made['id']}/permissions"
    given = await platform.admin.put(path, json={"permissions": list(permissions)})
    assert given.status_code == 200
    assert (await platform.admin.get(path)).json() == given.json()
    return dict(made)


async def minted(
    platform: MemoryPlatform, made: Json, *grants: Json, expires: str = EXPIRES
) -> httpx.Response:
    return await platform.admin.post(
        f"/accounts/{made['id']}/tokens", json={"grants": list(grants), "expires": expires}
    )


async def test_an_account_and_its_token(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE)
    got = (await platform.admin.get(f"/accounts/{made['id']}")).json()
    assert (got["id"], got["name"], got["status"]) == (made["id"], made["name"], "Active")
    assert [
        account["id"]
        for account in (await platform.admin.get("/accounts", params={"name": made["name"]})).json()
    ] == [made["id"]]
    token = (await minted(platform, made, READ)).json()
    entity = await platform.created("models", **model())
    async with platform.client(token) as client:
        assert (await client.get(f"/models/{entity['id']}")).status_code == 200
        assert (await client.put(f"/models/{entity['id']}/delete")).status_code == 403
    (key,) = (await platform.admin.get(f"/accounts/{made['id']}/tokens")).json()
    assert "secret" not in key
    assert token not in str(key)
    assert key["subject"] == f"accounts/{made['id']}"
    assert (await platform.admin.get(f"/accounts/{made['id']}/tokens/{key['id']}")).json() == key


async def test_a_token_that_the_administrator_has_chosen_is_as_good_as_one_of_ours() -> None:
    chosen = "chosen-by-the-administrator-0123456789"
    settings = ApiSettings(administrator_token=SecretStr(chosen))
    async with make_platform(settings=settings) as platform, platform.client(chosen) as client:
        accounts = platform.engines.accounts_database.accounts
        assert (await client.get("/accounts")).status_code == 401
        await admit(accounts, "administrator", chosen, platform.engines.clock())
        assert (await client.get("/accounts")).status_code == 200
        assert (await client.post("/models", json={"account": "acme", **model()})).status_code == 200
        (account,) = await accounts.list()
        assert await accounts.revoke(account.id or "") == 1
        assert (await client.get("/accounts")).status_code == 401


async def test_an_account_has_at_most_so_many_tokens() -> None:
    async with make_platform(settings=ApiSettings(account_tokens=2)) as platform:
        made = await account(platform, WRITE)
        path = f"/accounts/{made['id']}/tokens"
        assert [(await minted(platform, made, READ)).status_code for _ in range(2)] == [200, 200]
        refused = await minted(platform, made, READ)
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
        assert "has 2 tokens that are valid" in refused.json()["detail"]
        (key, _) = (await platform.admin.get(path)).json()
        await platform.admin.delete(f"{path}/{key['id']}")
        assert (await minted(platform, made, READ)).status_code == 200


async def test_a_revoked_token_counts_no_more(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE)
    tokens = [(await minted(platform, made, READ)).json() for _ in range(3)]
    clients = [platform.client(token) for token in tokens]
    (first, *_) = (await platform.admin.get(f"/accounts/{made['id']}/tokens")).json()
    assert [(await client.get("/models")).status_code for client in clients] == [200] * 3
    path = f"/accounts/{made['id']}/tokens"
    assert (await platform.admin.delete(f"{path}/{first['id']}")).status_code == 200
    assert sorted([(await client.get("/models")).status_code for client in clients]) == [200, 200, 401]
    assert (await platform.admin.delete(f"{path}/{first['id']}")).status_code == 404
    await platform.admin.delete(path)
    assert [(await client.get("/models")).status_code for client in clients] == [401] * 3


async def test_what_the_account_may_now_counts(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE)
    async with platform.client((await minted(platform, made, WRITE)).json()) as client:
        assert (await client.get("/models")).status_code == 200
        await platform.admin.put(f"/accounts/{made['id']}/permissions", json={"permissions": []})
        assert (await client.get("/models")).status_code == 403
        assert (await platform.admin.put(f"/accounts/{made['id']}/delete")).json()["status"] == "Deleted"
        assert (await client.get("/models")).status_code == 401


async def test_a_token_ends(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE)
    async with platform.client((await minted(platform, made, READ)).json()) as client:
        platform.engines.clock.now += timedelta(days=2)
        late = await client.get("/models")
        assert (late.status_code, late.json()["reason"]) == (401, "Unauthenticated")
        assert late.headers["www-authenticate"] == "Bearer"
    past = await minted(platform, made, READ)
    assert (past.status_code, past.json()["field"]) == (422, "expires")


@pytest.mark.parametrize("grants", [[WRITE], [ALL], [READ, WRITE], [{**READ, "accounts": ["*"]}]])
async def test_a_token_is_within_what_its_account_may_whichever_account_makes_it(
    platform: MemoryPlatform, grants: list[Json]
) -> None:
    made = await account(platform, READ)
    refused = await minted(platform, made, *grants)
    assert (refused.status_code, refused.json()["field"]) == (403, "grants")


async def test_a_caller_cannot_delegate_more_than_it_has(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE, READ)
    editor = await platform.holder(grant("accounts", ["get", "edit"], ["*"]), AccessGrant.parse(READ))
    body = {"grants": [WRITE], "expires": EXPIRES}
    path = f"/accounts/{made['id']}"
    for response in (
        await editor.post(f"{path}/tokens", json=body),
        await editor.put(f"{path}/permissions", json={"permissions": [WRITE]}),
        await editor.put(f"{path}/permissions", json={"permissions": [ALL]}),
    ):
        assert response.status_code == 403
    assert (await editor.post(f"{path}/tokens", json={**body, "grants": [READ]})).status_code == 200


async def test_names_are_one_accounts_alone(platform: MemoryPlatform) -> None:
    assert (await platform.admin.post("/accounts", json={"name": "x"})).status_code == 200
    again = await platform.admin.post("/accounts", json={"name": "x"})
    assert (again.status_code, again.json()["field"]) == (409, "name")
    bad = await platform.admin.post("/accounts", json={"name": "no spaces"})
    assert (bad.status_code, bad.json()["field"]) == (422, "name")


async def test_a_repeated_request_makes_one_account(platform: MemoryPlatform) -> None:
    key = {"Idempotency-Key": "once"}
    made = [await platform.admin.post("/accounts", json={"name": "x"}, headers=key) for _ in range(2)]
    assert made[0].json() == made[1].json()
    other = await platform.admin.post("/accounts", json={"name": "y"}, headers=key)
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    assert "'once'" in other.json()["detail"]
    creator = await platform.holder(grant("accounts", ["create"], ["*"]))
    assert (await creator.post("/accounts", json={"name": "y"}, headers=key)).status_code == 200


async def test_a_suspended_account_is_let_in_no_more_until_it_is_reactivated(
    platform: MemoryPlatform,
) -> None:
    made = await account(platform, WRITE)
    path = f"/accounts/{made['id']}"
    async with platform.client((await minted(platform, made, WRITE)).json()) as client:
        for _ in range(2):
            assert (await platform.admin.put(f"{path}/suspend")).json()["status"] == "Suspended"
        refused = await client.get("/models")
        assert (refused.status_code, f"account {made['name']} is Suspended") == (
            401,
            refused.json()["detail"],
        )
        assert (await platform.admin.put(f"{path}/reactivate")).json()["status"] == "Active"
        assert (await client.get("/models")).status_code == 200
    await platform.admin.put(f"{path}/delete")
    for verb in ("suspend", "reactivate"):
        gone = await platform.admin.put(f"{path}/{verb}")
        assert (gone.status_code, "is Deleted" in gone.json()["detail"]) == (409, True)


async def test_a_new_signing_key_leaves_earlier_tokens_good(platform: MemoryPlatform) -> None:
    made = await account(platform, WRITE)
    before = (await minted(platform, made, READ)).json()
    kid = (await platform.admin.post("/accounts/signing-keys")).json()
    after = (await minted(platform, made, READ)).json()
    assert jwt.get_unverified_header(before)["kid"] != kid == jwt.get_unverified_header(after)["kid"]
    for token in (before, after):
        async with platform.client(token) as client:
            assert (await client.get("/models")).status_code == 200
    client = await platform.holder(grant("accounts", ["*"], ["*"]))
    assert (await client.post("/accounts/signing-keys")).status_code == 403
    platform.engines.clock.now += timedelta(days=2)
    async with platform.client(before) as client:
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
async def test_what_is_wrong_with_a_token_is_said_in_words(
    platform: MemoryPlatform, token: str, said: str
) -> None:
    good = (await minted(platform, await account(platform, WRITE), READ)).json()
    foreign = jwt.encode({"jti": "x"}, "x" * 32, algorithm="HS256", headers={"kid": "x"})
    bad = {"cut": good[:-8], "changed": f"{good[:-8]}AAAAAAAA", "foreign": foreign}.get(token, token)
    async with platform.client(bad) as client:
        refused = await client.get("/models")
    assert (refused.status_code, said in refused.json()["detail"]) == (401, True), refused.text


async def test_a_refused_token_says_what_the_account_may_and_what_changes_that(
    platform: MemoryPlatform,
) -> None:
    made = await account(platform)
    refused = (await minted(platform, made, READ)).json()["detail"]
    assert "nothing yet" in refused
    assert f"PUT /v0/accounts/{made['id']}/permissions" in refused
    made = await account(platform, READ)
    assert "get,query of models of acme" in (await minted(platform, made, WRITE)).json()["detail"]


async def test_who_sees_one_account_sees_no_other(platform: MemoryPlatform) -> None:
    one, two = await account(platform, READ), await account(platform, READ, READ)
    client = await platform.holder(grant("accounts", ["get", "query", "edit"], [], [one["id"]]))
    assert [account["id"] for account in (await client.get("/accounts")).json()] == [one["id"]]
    assert (await client.get(f"/accounts/{one['id']}")).status_code == 200
    for path in (f"/accounts/{two['id']}", f"/accounts/{two['id']}/tokens", "/accounts/none"):
        assert (await client.get(path)).status_code == 404


async def test_labels_of_an_account(platform: MemoryPlatform) -> None:
    blue, other = await account(platform, READ), await account(platform, READ, WRITE)
    path = f"/accounts/{blue['id']}/labels"
    assert "labels" not in blue
    edited = await platform.admin.patch(path, json={"labels": {"team": "blue", "tier": "gold"}})
    assert (edited.status_code, edited.json()) == (200, {"labels": {"team": "blue", "tier": "gold"}})
    edited = await platform.admin.patch(path, json={"labels": {"tier": None, "gone": None}})
    assert edited.json() == {"labels": {"team": "blue"}}
    assert (await platform.admin.get(f"/accounts/{blue['id']}")).json()["labels"] == {"team": "blue"}
    assert [one["id"] for one in (await with_labels(platform, '{"team": "blue"}')).json()] == [blue["id"]]
    assert (await with_labels(platform, '{"team": "red"}')).json() == []
    assert {one["id"] for one in (await with_labels(platform, "")).json()} >= {blue["id"], other["id"]}


async def with_labels(platform: MemoryPlatform, labels: str) -> httpx.Response:
    return await platform.admin.get("/accounts", params={"labels": labels})


async def test_labels_of_an_account_are_bounded_as_an_entitys(platform: MemoryPlatform) -> None:
    path = f"/accounts/{(await account(platform, READ))['id']}"
    for labels in ({"a b": "c"}, {"a": "b c"}, {"a": "v" * 64}, {"dyff.io/owner": "x"}, {"steelyard/x": "y"}):
        refused = await platform.admin.patch(f"{path}/labels", json={"labels": labels})
        assert (refused.status_code, refused.json()["field"].partition(".")[0]) == (422, "labels")
    thousand = {f"k{number}": "v" for number in range(1000)}
    assert (await platform.admin.patch(f"{path}/labels", json={"labels": thousand})).status_code == 200
    full = await platform.admin.patch(f"{path}/labels", json={"labels": {"more": "v"}})
    assert (full.status_code, full.json()["field"]) == (422, "labels")
    assert (await with_labels(platform, "a=b")).status_code == 422
    await platform.admin.put(f"{path}/delete")
    assert (await platform.admin.patch(f"{path}/labels", json={"labels": {"k1": None}})).status_code == 409
