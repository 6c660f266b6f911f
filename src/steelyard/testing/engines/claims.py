"""Behaviour of claims in every accounts database. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from steelyard.accounts.claims import Claim, Claims, ForgottenClaim
from steelyard.accounts.database import Superseded

Case = Callable[[Claims], Awaitable[None]]
NOW = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=UTC)
TERMINAL = {"Complete", "Failed", "Deleted"}


def at(minute: float) -> datetime:
    return NOW + timedelta(minutes=minute)


def claim(
    id: str,
    status: str = "Created",
    offset: int = 1,
    *,
    epoch: int = 1,
    account: str = "a",
    minute: float = 0,
) -> Claim:
    return Claim(
        id=id,
        kind="Evaluation",
        account=account,
        status=status,
        json=b'{"id": "%s"}' % id.encode(),
        position=(epoch, offset),
        created=at(minute),
        reason="QuotaLimit",
        message="Global quota exceeded",
        blocked=frozenset({"d1", "s1"}),
        quantities={"cpu": "2", "memory": "2Gi"},
        terminal_at=at(minute + 1) if status in TERMINAL else None,
    )


async def put(claims: Claims, leader: int, *given: Claim) -> None:
    await claims.apply([(claim.id, claim) for claim in given], 1, {}, leader)


async def current(claims: Claims, id: str) -> Claim:
    claim = await claims.get(id)
    assert claim is not None
    return claim


async def admit(
    claims: Claims,
    id: str,
    now: datetime,
    allowed: Callable[[Sequence[Claim]], str | None],
    leader: int,
    since: datetime | None = None,
) -> str | None:
    """Admit one entity by itself; return why it was refused, if it was."""
    refusals = await claims.admit([id], now, lambda _, counted: allowed(counted), leader, since)
    assert set(refusals) <= {id}
    return refusals.get(id)


def anybody(held: Sequence[Claim]) -> str | None:
    return None


def at_most(limit: int) -> Callable[[Sequence[Claim]], str | None]:
    return lambda held: f"{len(held)}/{limit}" if len(held) >= limit else None


async def list_seen_claims(claims: Claims, leader: int, since: datetime | None = None) -> list[Claim]:
    """Return the claims that count when one more is to be admitted, by id."""
    seen: list[Claim] = []

    def check(held: Sequence[Claim]) -> str | None:
        seen.extend(held)
        return "no"

    await put(claims, leader, claim("checked"))
    assert await admit(claims, "checked", at(100), check, leader, since) == "no"
    shown = await claims.list_counted(since)
    assert sorted(map(repr, shown)) == sorted(map(repr, seen)), "what is counted is what the check counts"
    return sorted(seen, key=lambda claim: claim.id)


# ---- quotas and creations


async def quotas_and_creations_are_found_by_their_kinds(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    quota = replace(claim("q1", "Ready"), kind="Quota")
    model = replace(claim("m1", minute=2), kind="Model")
    await put(
        claims, leader, quota, claim("e1", minute=1), claim("e2", minute=3), model, claim("e3", minute=3)
    )
    assert await claims.quotas() == [quota]
    assert [item.id for item in await claims.list_created({"Evaluation"}, at(1))] == ["e1", "e2", "e3"]
    both = await claims.list_created({"Evaluation", "Model"}, at(1.5))
    assert [(item.id, item.created, item.json) for item in both] == [
        ("m1", at(2), b""), ("e2", at(3), b""), ("e3", at(3), b""),
    ]  # fmt: skip
    assert await claims.list_created(set(), at(0)) == []


# ---- states and positions


async def a_claim_is_kept_as_it_was_given(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    given = [claim("e1"), claim("e2", "Complete")]
    await put(claims, leader, *given)
    assert await claims.find_claims(["e1", "e2", "e3"]) == {item.id: item for item in given}
    assert await claims.get("e1") == given[0]
    assert await claims.get("e3") is None


async def positions_are_those_of_the_epoch(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await claims.apply([], 1, {0: 10, 1: 20}, leader)
    await claims.apply([("e1", claim("e1"))], 1, {1: 21}, leader)
    assert await claims.positions(1) == {0: 10, 1: 21}
    assert await claims.positions(2) == {}
    await claims.apply([], 2, {0: 1}, leader)
    assert await claims.positions(2) == {0: 1}


async def an_older_state_is_left_out(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1", "Complete", 5))
    await claims.apply([("e1", claim("e1", "Created", 4))], 1, {0: 6}, leader)
    assert (await current(claims, "e1")).status == "Complete"
    assert await claims.positions(1) == {0: 6}
    await put(claims, leader, claim("e1", "Created", 1, epoch=2))
    assert (await current(claims, "e1")).status == "Created"


async def the_last_state_of_a_batch_is_kept(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(
        claims, leader, claim("e1", "Created", 1), claim("e1", "Complete", 3), claim("e1", "Admitted", 2)
    )
    assert (await current(claims, "e1")).status == "Complete"


async def a_forgotten_claim_goes(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"), claim("e2"))
    await claims.apply([("e1", None), ("never", None)], 1, {0: 9}, leader)
    assert list(await claims.find_claims(["e1", "e2"])) == ["e2"]
    there = await current(claims, "e2")
    epoch, offset = there.position
    await claims.apply([("e2", ForgottenClaim((epoch, offset - 1)))], 1, {0: 9}, leader)
    assert await claims.get("e2") == there, "it was made again since"
    await claims.apply(
        [("e2", ForgottenClaim((epoch, offset + 1))), ("never", ForgottenClaim((1, 1)))], 1, {0: 9}, leader
    )
    assert await claims.get("e2") is None


async def claims_without_an_end_are_listed_oldest_first(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("young", minute=3), claim("old", minute=1), claim("over", minute=0))
    await admit(claims, "over", at(4), anybody, leader)
    await put(claims, leader, claim("over", "Complete", 2), claim("never ran", "Failed", minute=2))
    assert [unfinished.id for unfinished in await claims.list_unfinished()] == ["over", "old", "young"]
    await claims.release("over", at(5), leader)
    assert [unfinished.id for unfinished in await claims.list_unfinished()] == ["old", "young"]


# ---- admission


async def an_admission_stays_whatever_comes(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"))
    assert await admit(claims, "e1", at(1), anybody, leader) is None
    await put(claims, leader, claim("e1", "Created", 2))
    await put(claims, leader, claim("e1", "Admitted", 3))
    admitted = await current(claims, "e1")
    assert (admitted.status, admitted.admitted_at, admitted.released_at) == ("Admitted", at(1), None)
    assert await admit(claims, "e1", at(2), lambda held: "full", leader) is None
    assert (await current(claims, "e1")).admitted_at == at(1)


async def a_refused_claim_is_not_admitted(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"))
    assert await admit(claims, "e1", at(1), lambda held: "full", leader) == "full"
    assert (await current(claims, "e1")).admitted_at is None


async def the_check_sees_what_is_held(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1", account="b"), claim("e2"), claim("over"))
    for id in ("e1", "over"):
        await admit(claims, id, at(1), anybody, leader)
    await put(claims, leader, claim("over", "Complete", 2))
    await claims.release("over", at(2), leader)
    [held] = await list_seen_claims(claims, leader)
    assert (held.id, held.account, held.quantities, held.admitted_at) == (
        "e1",
        "b",
        {"cpu": "2", "memory": "2Gi"},
        at(1),
    )


async def a_terminal_claim_counts_until_it_is_released(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"))
    await admit(claims, "e1", at(1), anybody, leader)
    await put(claims, leader, claim("e1", "Complete", 2))
    assert [counted.id for counted in await list_seen_claims(claims, leader)] == ["e1"]


async def the_check_sees_what_was_admitted_since(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    for minute, id in enumerate(("early", "late", "held")):
        await put(claims, leader, claim(id))
        await admit(claims, id, at(minute), anybody, leader)
    for id in ("early", "late"):
        await put(claims, leader, claim(id, "Complete", 2))
        await claims.release(id, at(5), leader)
    seen = await list_seen_claims(claims, leader, since=at(1))
    assert [counted.id for counted in seen] == ["held", "late"]
    assert [counted.released_at for counted in seen] == [None, at(5)]


async def a_restored_or_forgotten_claim_was_admitted_all_the_same(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    for minute, id in enumerate(("restored", "forgotten")):
        await put(claims, leader, claim(id))
        await admit(claims, id, at(minute), anybody, leader)
        await put(claims, leader, claim(id, "Deleted", 2))
        await claims.release(id, at(5), leader)
    for state in (3, 3, 4):
        await put(claims, leader, claim("restored", "Created", state))
    await claims.apply(
        [("forgotten", ForgottenClaim((1, 0))), ("forgotten", ForgottenClaim((9, 9)))], 1, {0: 9}, leader
    )
    seen = await list_seen_claims(claims, leader, since=at(0))
    assert [(counted.id, counted.admitted_at) for counted in seen] == [
        ("forgotten", at(1)),
        ("restored", at(0)),
    ]
    assert not await list_seen_claims(claims, leader), "they hold nothing"
    assert await admit(claims, "restored", at(6), anybody, leader) is None
    seen = await list_seen_claims(claims, leader, since=at(0))
    assert {counted.admitted_at for counted in seen if counted.id == "restored"} == {at(0), at(6)}


async def a_claim_that_is_over_is_not_admitted(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1", "Deleted"))
    assert "is Deleted" in (await admit(claims, "e1", NOW, anybody, leader) or "")
    assert "not known" in (await admit(claims, "e2", NOW, anybody, leader) or "")


async def many_at_once_are_admitted_up_to_the_limit(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, *(claim(f"e{n}") for n in range(20)))
    said = await asyncio.gather(*(admit(claims, f"e{n}", NOW, at_most(3), leader) for n in range(20)))
    assert sorted(map(str, said)) == ["3/3"] * 17 + ["None"] * 3


async def admissions_at_once_count_for_those_after_them(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, *(claim(id) for id in ("before", "b", "a", "c")), claim("over", "Failed"))
    assert await admit(claims, "before", at(0), anybody, leader) is None
    checks: list[tuple[str, list[str]]] = []

    def check(id: str, counted: Sequence[Claim]) -> str | None:
        checks.append((id, sorted(claim.id for claim in counted)))
        assert not any(claim.json for claim in counted)
        assert {claim.released_at for claim in counted} == {None}
        return "full" if id == "a" else None

    given = ["b", "over", "a", "nobody", "before", "c"]
    refusals = await claims.admit(given, at(1), check, leader)
    assert refusals == {
        "over": "Evaluation over is Failed",
        "a": "full",
        "nobody": "entity nobody is not known",
    }
    assert checks == [("b", ["before"]), ("a", ["b", "before"]), ("c", ["b", "before"])]
    times = {id: claim.admitted_at for id, claim in (await claims.find_claims(given)).items()}
    assert times == {"before": at(0), "b": at(1), "c": at(1), "a": None, "over": None}
    assert await claims.admit([], at(2), check, leader) == {}


async def a_second_admission_counts_twice_for_those_after_it(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("again"), claim("next"))
    await admit(claims, "again", at(0), anybody, leader)
    await claims.release("again", at(1), leader)
    seen: list[tuple[datetime | None, datetime | None]] = []

    def check(id: str, counted: Sequence[Claim]) -> str | None:
        if id == "next":
            seen.extend((claim.admitted_at, claim.released_at) for claim in counted)
        return None

    assert await claims.admit(["again", "next"], at(2), check, leader, since=at(0)) == {}
    assert sorted(seen, key=str) == [(at(0), at(1)), (at(2), None)]
    shown = [
        (item.admitted_at, item.released_at)
        for item in await claims.list_counted(at(0))
        if item.id == "again"
    ]
    assert sorted(shown, key=str) == sorted(seen, key=str)


async def a_check_that_fails_admits_nothing(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"), claim("e2"))

    def check(id: str, held: Sequence[Claim]) -> str | None:
        if id == "e2":
            raise ValueError("cannot say")
        return None

    try:
        await claims.admit(["e1", "e2"], NOW, check, leader)
    except ValueError:
        assert [claim.admitted_at for claim in (await claims.find_claims(["e1", "e2"])).values()] == [
            None,
            None,
        ]
    else:
        raise AssertionError("the check's failure is gone")


# ---- release


async def a_release_is_noted_once_and_stays(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"), claim("never admitted"))
    await admit(claims, "e1", at(1), anybody, leader)
    await put(claims, leader, claim("e1", "Complete", 2))
    await claims.release("e1", at(2), leader)
    await claims.release("e1", at(3), leader)
    await put(claims, leader, claim("e1", "Deleted", 3))
    assert (await current(claims, "e1")).released_at == at(2)
    await claims.release("never admitted", at(2), leader)
    assert (await current(claims, "never admitted")).released_at is None


async def a_restored_claim_is_admitted_anew(claims: Claims) -> None:
    leader = await claims.lead("one", NOW)
    await put(claims, leader, claim("e1"))
    await admit(claims, "e1", at(1), anybody, leader)
    await put(claims, leader, claim("e1", "Deleted", 2))
    await claims.release("e1", at(2), leader)
    await put(claims, leader, claim("e1", "Created", 3))
    stored = await current(claims, "e1")
    assert (stored.admitted_at, stored.released_at) == (None, None)
    assert await admit(claims, "e1", at(3), lambda held: "full", leader) == "full"
    assert await admit(claims, "e1", at(3), anybody, leader) is None
    assert (await current(claims, "e1")).admitted_at == at(3)


# ---- leaders


async def a_new_leader_has_a_greater_epoch(claims: Claims) -> None:
    epochs = [await claims.lead(owner, NOW) for owner in ("one", "two", "one")]
    assert epochs == sorted(set(epochs))


async def a_former_leader_writes_nothing(claims: Claims) -> None:
    old = await claims.lead("one", NOW)
    await put(claims, old, claim("e1"), claim("over"))
    await admit(claims, "over", NOW, anybody, old)
    await put(claims, old, claim("over", "Complete", 2))
    new = await claims.lead("two", NOW)
    before = [await current(claims, id) for id in ("e1", "over")]
    for leader in (old, new + 1, 0):
        for write in (
            admit(claims, "e1", NOW, anybody, leader),
            claims.release("over", NOW, leader),
            claims.apply([("e1", claim("e1", "Complete", 3)), ("over", None)], 1, {0: 9}, leader),
        ):
            try:
                await write
            except Superseded:
                assert [await current(claims, id) for id in ("e1", "over")] == before
            else:
                raise AssertionError(f"{leader} writes, and {new} leads")
    assert await claims.positions(1) == {}
    assert await admit(claims, "e1", NOW, anybody, new) is None
    await claims.release("over", at(1), new)
    assert (await current(claims, "over")).released_at == at(1)


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        quotas_and_creations_are_found_by_their_kinds,
        a_claim_is_kept_as_it_was_given,
        positions_are_those_of_the_epoch,
        an_older_state_is_left_out,
        the_last_state_of_a_batch_is_kept,
        a_forgotten_claim_goes,
        claims_without_an_end_are_listed_oldest_first,
        an_admission_stays_whatever_comes,
        a_refused_claim_is_not_admitted,
        the_check_sees_what_is_held,
        a_terminal_claim_counts_until_it_is_released,
        the_check_sees_what_was_admitted_since,
        a_restored_or_forgotten_claim_was_admitted_all_the_same,
        a_claim_that_is_over_is_not_admitted,
        many_at_once_are_admitted_up_to_the_limit,
        admissions_at_once_count_for_those_after_them,
        a_second_admission_counts_twice_for_those_after_it,
        a_check_that_fails_admits_nothing,
        a_release_is_noted_once_and_stays,
        a_restored_claim_is_admitted_anew,
        a_new_leader_has_a_greater_epoch,
        a_former_leader_writes_nothing,
    )
}
