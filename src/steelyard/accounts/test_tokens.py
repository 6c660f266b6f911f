"""Tokens: who is let in, what they may do, and from when on no more."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from steelyard.accounts.database import Accounts, NoSuchAccount
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.tokens import EVERYTHING, Principal, Tokens, Unauthenticated, bootstrap
from steelyard_schema.account import AccessGrant, Account, Identity

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GET = AccessGrant(resources=["datasets"], functions=["get"], accounts=["a"])
EDIT = AccessGrant(resources=["datasets"], functions=["edit"], accounts=["a"])


@pytest.fixture
async def accounts_database(tmp_path: Path) -> AsyncIterator[AccountsDatabase]:
    opened = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    yield opened
    await opened.close()


@pytest.fixture
def accounts(accounts_database: AccountsDatabase) -> Accounts:
    return accounts_database.accounts


@pytest.fixture
def tokens(accounts: Accounts) -> Tokens:
    return Tokens(accounts)


async def alice(accounts: Accounts, *permissions: AccessGrant) -> Account:
    return await accounts.create("alice", Identity(), NOW, permissions)


async def minted(tokens: Tokens, account: Account, *grants: AccessGrant) -> str:
    return await tokens.mint(account, f"accounts/{account.id}", grants, LATER, NOW)


async def session_token(tokens: Tokens, session: str, *grants: AccessGrant) -> str:
    return await tokens.mint(None, f"inferencesessions/{session}", grants, LATER, NOW)


def consume(*sessions: str, accounts: list[str] | None = None) -> AccessGrant:
    return AccessGrant(
        resources=["inferencesessions"], functions=["consume"], entities=[*sessions], accounts=accounts or []
    )


def part(token: str, number: int) -> dict[str, Any]:
    text = token.split(".")[number]
    return cast(dict[str, Any], json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def refusal(tokens: Tokens, token: str, now: datetime = NOW) -> str:
    with pytest.raises(Unauthenticated) as raised:
        await tokens.authenticate(token, now)
    return str(raised.value)


# ---- what a token is


async def test_a_token_says_what_the_published_client_reads(accounts: Accounts, tokens: Tokens) -> None:
    account = await alice(accounts, GET)
    token = await minted(tokens, account, GET)
    stored = await accounts.key(part(token, 1)["jti"])
    assert stored is not None
    [kid] = await accounts.signing_keys()
    assert part(token, 0) == {"alg": "EdDSA", "typ": "JWT", "kid": kid}
    assert part(token, 1) == {
        "jti": stored[0].id,
        "sub": f"accounts/{account.id}",
        "iat": int(NOW.timestamp()),
        "exp": int(LATER.timestamp()),
        "grants": [{"resources": ["datasets"], "functions": ["get"], "accounts": ["a"], "entities": []}],
    }
    assert stored[0].permissionsVersion == account.auth.permissionsVersion


async def test_who_bears_it_may_what_it_grants(accounts: Accounts, tokens: Tokens) -> None:
    account = await alice(accounts, GET, EDIT)
    principal = await tokens.authenticate(await minted(tokens, account, GET), NOW)
    assert (principal.subject, principal.account and principal.account.name) == (
        f"accounts/{account.id}",
        "alice",
    )
    assert principal.allows("datasets", "get", "a", "1")
    assert not principal.allows("datasets", "edit", "a", "1")
    assert principal.scope("datasets", "get").accounts == {"a"}
    assert principal.covers([GET])
    assert not principal.covers([EDIT])


async def test_the_database_has_no_token_in_it(
    accounts_database: AccountsDatabase, tokens: Tokens, tmp_path: Path
) -> None:
    token = await minted(tokens, await alice(accounts_database.accounts, GET), GET)
    held = content(tmp_path)
    assert part(token, 1)["jti"].encode() in held
    assert token.rpartition(".")[2].encode() not in held


async def test_an_unknown_account_gets_no_token(accounts: Accounts, tokens: Tokens) -> None:
    with pytest.raises(NoSuchAccount):
        await minted(tokens, Account(id="x", name="x"), GET)
    with pytest.raises(ValueError, match="should be inferencesessions/<id>"):
        await tokens.mint(None, "accounts/x", [GET], LATER, NOW)


# ---- who is not let in


async def test_what_is_none_of_ours_is_refused(accounts: Accounts, tokens: Tokens) -> None:
    token = await minted(tokens, await alice(accounts, EVERYTHING), GET)
    head, body, signature = token.split(".")
    claims, kid = part(token, 1), part(token, 0)["kid"]
    own = load_pem_private_key((await accounts.signing_keys())[kid][0], None)
    assert isinstance(own, Ed25519PrivateKey)
    public = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    more = base64.urlsafe_b64encode(json.dumps(claims | {"grants": ["*"]}).encode()).decode().rstrip("=")
    stranger = Ed25519PrivateKey.generate()
    for forged in (
        "", "x", "a.b.c", "é.é.é", f"{head}.{body}", f"{head}.{body}.", f"{head}.{more}.{signature}",
        jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
        jwt.encode(claims, public, algorithm="HS256", headers={"kid": kid}),
        jwt.encode(claims, stranger, algorithm="EdDSA", headers={"kid": kid}),
        jwt.encode(claims, stranger, algorithm="EdDSA", headers={"kid": "another"}),
        jwt.encode(claims, stranger, algorithm="EdDSA"),
        jwt.encode({"sub": "x"}, own, algorithm="EdDSA", headers={"kid": kid}),
    ):  # fmt: skip
        assert "not issued by this platform" in await refusal(tokens, forged), forged


async def test_a_token_is_the_very_one_that_was_given_out(accounts: Accounts, tokens: Tokens) -> None:
    """The holder of the signing key alone cannot make one, either."""
    token = await minted(tokens, await alice(accounts, EVERYTHING), GET)
    kid = part(token, 0)["kid"]
    own = load_pem_private_key((await accounts.signing_keys())[kid][0], None)
    assert isinstance(own, Ed25519PrivateKey)
    for claims in (part(token, 1) | {"grants": []}, part(token, 1) | {"jti": "unknown"}):
        forged = jwt.encode(claims, own, algorithm="EdDSA", headers={"kid": kid})
        assert "revoked" in await refusal(tokens, forged)


async def test_a_token_ends(accounts: Accounts, tokens: Tokens) -> None:
    token = await minted(tokens, await alice(accounts, GET), GET)
    await tokens.authenticate(token, LATER - timedelta(seconds=1))
    assert f"expired at {LATER.isoformat()}" in await refusal(tokens, token, LATER)
    assert "expired" in await refusal(Tokens(accounts), token, LATER)


async def test_what_changes_counts_at_the_next_use(accounts: Accounts, tokens: Tokens) -> None:
    account = await alice(accounts, GET, EDIT)
    id, token = account.id or "", await minted(tokens, account, GET, EDIT)
    await tokens.authenticate(token, NOW)
    await accounts.set_permissions(id, [GET])
    principal = await tokens.authenticate(token, NOW)
    assert not principal.allows("datasets", "edit", "a", "1")
    assert principal.allows("datasets", "get", "a", "1")
    await accounts.set_permissions(id, [EVERYTHING])
    assert not (await tokens.authenticate(token, NOW)).allows("models", "get", "a", "1")
    await accounts.set_status(id, "Suspended", "SuspendCommand", NOW)
    assert "alice is Suspended" in await refusal(tokens, token)
    await accounts.set_status(id, "Active", "ReactivateCommand", NOW)
    await tokens.authenticate(token, NOW)
    await accounts.revoke(id, part(token, 1)["jti"])
    assert "revoked" in await refusal(tokens, token)


async def test_what_another_process_changes_counts_too(
    accounts: Accounts, tokens: Tokens, tmp_path: Path
) -> None:
    account = await alice(accounts, GET)
    token = await minted(tokens, account, GET)
    await tokens.authenticate(token, NOW)
    other = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    await other.accounts.revoke(account.id or "")
    await other.close()
    assert "revoked" in await refusal(tokens, token)


async def test_a_deleted_account_has_no_tokens(accounts: Accounts, tokens: Tokens) -> None:
    account = await alice(accounts, GET)
    token = await minted(tokens, account, GET)
    await accounts.delete(account.id or "", NOW)
    assert "revoked" in await refusal(tokens, token)
    later = await minted(tokens, account, GET)
    assert "alice is Deleted" in await refusal(tokens, later)


# ---- sessions


@pytest.mark.parametrize(
    "grant",
    [
        consume("s1"),
        consume("s1", "s2"),
        consume("*", accounts=["*"]),
        EVERYTHING,
    ],
    ids=["its own", "two", "any session", "everything"],
)
async def test_a_sessions_token_is_good_for_its_session_only(tokens: Tokens, grant: AccessGrant) -> None:
    principal = await tokens.authenticate(await session_token(tokens, "s1", grant), NOW)
    assert (principal.subject, principal.account) == ("inferencesessions/s1", None)
    assert principal.allows("inferencesessions", "consume", "a", "s1")
    assert not principal.allows("inferencesessions", "consume", "a", "s2")
    assert not principal.allows("datasets", "get", "a", "s1")
    assert principal.scope("inferencesessions", "consume").accounts == frozenset()


# ---- signing keys


async def test_tokens_of_earlier_signing_keys_stay_good(accounts: Accounts, tokens: Tokens) -> None:
    account, other = await alice(accounts, GET), Tokens(accounts)
    first = await minted(tokens, account, GET)
    kid = await tokens.rotate(NOW)
    second = await minted(other, account, GET)
    assert part(second, 0)["kid"] == kid != part(first, 0)["kid"]
    for issuer in (tokens, other, Tokens(accounts)):
        await issuer.authenticate(first, NOW)
        await issuer.authenticate(second, NOW)


# ---- what is remembered


class Counting:
    """Accounts that count how often a key is looked up, and do something meanwhile."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.lookups = 0
        self.meanwhile: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._accounts, name)

    async def key(self, id: str) -> Any:
        self.lookups += 1
        stored = await self._accounts.key(id)
        for change in self.meanwhile:
            await change()
        return stored


async def test_a_token_is_looked_up_once_until_something_changes(accounts: Accounts) -> None:
    counting = Counting(accounts)
    tokens = Tokens(cast(Accounts, counting))
    token = await minted(tokens, await alice(accounts, GET), GET)
    for _ in range(5):
        await tokens.authenticate(token, NOW)
    assert counting.lookups == 1
    await accounts.create("bob", Identity(), NOW)
    await tokens.authenticate(token, NOW)
    assert counting.lookups == 2


async def test_what_was_looked_up_before_a_change_is_not_remembered_after_it(accounts: Accounts) -> None:
    counting = Counting(accounts)
    tokens = Tokens(cast(Accounts, counting))
    account = await alice(accounts, GET)
    token, other = await minted(tokens, account, GET), await minted(tokens, account, GET)

    async def change() -> None:
        counting.meanwhile.clear()
        await accounts.revoke(account.id or "", part(token, 1)["jti"])
        await tokens.authenticate(other, NOW)  # this request has seen the change already

    counting.meanwhile.append(change)
    await tokens.authenticate(token, NOW)  # it was good when it was looked up
    assert "revoked" in await refusal(tokens, token)


async def test_what_is_remembered_is_bounded(accounts: Accounts) -> None:
    account, tokens = await alice(accounts, GET), Tokens(accounts, remembered=2)
    given = [await minted(tokens, account, GET) for _ in range(5)]
    principals: list[Principal] = [await tokens.authenticate(item, NOW) for item in given]
    assert len({principal.key_id for principal in principals}) == 5
    assert len(tokens._known) <= 2


# ---- the first administrator


async def test_the_first_administrator_may_do_everything(accounts: Accounts, tokens: Tokens) -> None:
    principal = await tokens.authenticate(await bootstrap(accounts, "administrator", NOW), NOW)
    assert principal.covers([EVERYTHING])
    assert principal.allows("accounts", "create", "anybody", "x")


async def test_a_later_token_takes_the_place_of_the_earlier_and_of_no_other(
    accounts: Accounts, tokens: Tokens
) -> None:
    first = await bootstrap(accounts, "administrator", NOW)
    account = (await tokens.authenticate(first, NOW)).account
    assert account is not None
    own = await minted(tokens, account, GET)
    second = await bootstrap(accounts, "administrator", NOW)
    assert "revoked" in await refusal(tokens, first)
    for token in (own, second):
        await tokens.authenticate(token, NOW)
    assert len(await accounts.list()) == 1


async def test_an_administrator_who_is_locked_out_gets_in_again(accounts: Accounts, tokens: Tokens) -> None:
    account = (await tokens.authenticate(await bootstrap(accounts, "administrator", NOW), NOW)).account
    assert account is not None
    await accounts.set_permissions(account.id or "", [GET])
    await accounts.set_status(account.id or "", "Suspended", "SuspendCommand", NOW)
    token = await bootstrap(accounts, "administrator", NOW)
    assert (await tokens.authenticate(token, NOW)).covers([EVERYTHING])
