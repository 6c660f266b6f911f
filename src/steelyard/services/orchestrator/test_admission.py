"""Turns, positions and back-filling in tables; in random worlds never beyond a quota, in order, nobody starved."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounts.claims import Claim
from steelyard.accounts.quotas import GLOBAL, Shortage
from steelyard.services.orchestrator.admission import AdmissionContext, admissions, is_news
from steelyard.services.orchestrator.exemptions import ExemptingLimits
from steelyard.services.orchestrator.waiting import Admit, Decision, Wait
from steelyard.services.simulation.entities import START

SLOTS, GPUS = "workflows.dyff.io/admitted", "nvidia.com/gpu-t4"
HOUR = timedelta(hours=1)


def make_claim(
    id: str, account: str = "a", minute: float = 0, content: bytes = b"{}", **quantities: int
) -> Claim:
    """`gpus=2` are GPUs in addition to the slot that each takes."""
    wanted = {SLOTS: "1"} | ({GPUS: str(quantities["gpus"])} if quantities.get("gpus") else {})
    created = START + timedelta(minutes=minute)
    return Claim(id, "Evaluation", account, "Created", content, (1, 1), created, quantities=wanted)


@dataclass(frozen=True)
class Totals:
    """Limits for everybody, and for each account."""

    overall: Mapping[str, int]
    per_account: Mapping[str, int]

    def shortages(self, claim: Claim, held: Iterable[Claim]) -> list[Shortage]:
        own = [other for other in held if other.account == claim.account]
        shortages = []
        for principal, word, limits, others in (
            (f"accounts/{claim.account}", "Account", self.per_account, own),
            (GLOBAL, "Global", self.overall, held),
        ):
            for resource, limit in limits.items():
                used = sum(int(other.quantities.get(resource, "0")) for other in others)
                if used + int(claim.quantities.get(resource, "0")) > limit:
                    message = f"{word} quota exceeded: {resource}: {used}/{limit}"
                    shortages.append(Shortage(principal, resource, message))
        return shortages


def make_limits(slots: int = 100, gpus: int = 100, own_slots: int = 100, own_gpus: int = 100) -> Totals:
    return Totals({SLOTS: slots, GPUS: gpus}, {SLOTS: own_slots, GPUS: own_gpus})


def make_situation(
    held: Sequence[Claim] = (), minute: float = 0, turns: Mapping[str, float] | None = None
) -> AdmissionContext:
    """`turns` of both resources: minutes by account, or of one by `account resource`."""
    times = {
        (account.partition(" ")[0], resource): START + timedelta(minutes=resources)
        for account, resources in (turns or {}).items()
        for resource in (SLOTS, GPUS)
        if account.partition(" ")[2] in {"", resource}
    }
    return AdmissionContext(held, times, START + timedelta(minutes=minute), HOUR)


def admitted(decisions: Mapping[str, Decision]) -> str:
    return " ".join(id for id, decision in decisions.items() if isinstance(decision, Admit))


def message(decisions: Mapping[str, Decision], id: str) -> str:
    decision = decisions[id]
    assert isinstance(decision, Wait)
    assert decision.reason == "QuotaLimit"
    return decision.message


A1, A2, A3 = (make_claim(f"a{n}", "a", n) for n in (1, 2, 3))
B1, B2 = (make_claim(f"b{n}", "b", 10 + n) for n in (1, 2))


@pytest.mark.parametrize(
    ("claims", "limits", "turns", "expected"),
    [
        pytest.param([A2, A1, B1], make_limits(), {}, "a1 b1 a2", id="accounts take turns"),
        pytest.param([A1, A2, B1], make_limits(), {"a": 5}, "b1 a1 a2", id="admitted longest ago goes first"),
        pytest.param([A1, A2, B1], make_limits(), {"a": 5, "b": 6}, "a1 b1 a2", id="also when all were"),
        pytest.param([A3, A1, A2], make_limits(slots=2), {}, "a1 a2", id="first in, first out"),
        pytest.param(
            [A1, A2, A3, B1, B2], make_limits(own_slots=1), {}, "a1 b1", id="an account's own limit"
        ),
        pytest.param([A1, A2, B1, B2], make_limits(slots=3), {}, "a1 b1 a2", id="everybody's limit"),
        pytest.param([A1], make_limits(slots=0), {}, "", id="no room at all"),
    ],
)
def test_whose_turn_it_is(
    claims: list[Claim], limits: Totals, turns: dict[str, float], expected: str
) -> None:
    assert admitted(admissions(claims, limits, make_situation(turns=turns))) == expected


BIG, SMALL = make_claim("big", "a", 0, gpus=8), make_claim("small", "a", 1, gpus=1)
OTHER, PLAIN = make_claim("other", "b", 2, gpus=1), make_claim("plain", "a", 3)
HELD = (make_claim("held", "c", gpus=4),)


@pytest.mark.parametrize(
    ("claims", "limits", "minute", "turns", "expected"),
    [
        pytest.param([BIG, SMALL, OTHER], make_limits(gpus=8), 59, {}, "other small", id="who fits may pass"),
        pytest.param([BIG, SMALL, OTHER], make_limits(gpus=8), 60, {}, "", id="but not for ever"),
        pytest.param(
            [BIG, PLAIN], make_limits(gpus=8), 60, {}, "plain", id="who does not take it passes still"
        ),
        pytest.param(
            [BIG, OTHER],
            make_limits(gpus=8),
            60,
            {"a": 9, "b": 1},
            "other",
            id="it is the other's turn first",
        ),
        pytest.param(
            [BIG, SMALL, OTHER],
            make_limits(gpus=7),
            60,
            {},
            "other small",
            id="nothing is kept for the impossible",
        ),
        pytest.param(
            [BIG, SMALL, OTHER],
            make_limits(own_gpus=7),
            60,
            {},
            "other small",
            id="nor for what the account may never have",
        ),
    ],
)
def test_back_filling(
    claims: list[Claim], limits: Totals, minute: float, turns: dict[str, float], expected: str
) -> None:
    decisions = admissions(claims, limits, make_situation(HELD, minute, turns))
    assert set(admitted(decisions).split()) == set(expected.split())


def test_nothing_is_kept_from_others_for_one_whose_own_account_is_in_the_way() -> None:
    own = make_claim("own", "a", 0, gpus=4)
    limits = make_limits(gpus=8, own_gpus=8)
    decisions = admissions([BIG, OTHER], limits, make_situation([own, *HELD[:0]], 60))
    assert admitted(decisions) == "other"


def test_a_waiter_hears_which_quota_is_in_the_way_and_its_position() -> None:
    held = [make_claim("x", "a"), make_claim("y", "b")]
    decisions = admissions([A1, A2, B1], make_limits(own_slots=1), make_situation(held))
    assert message(decisions, "a1") == f"Account quota exceeded: {SLOTS}: 1/1 (position 1)"
    assert message(decisions, "a2") == f"Account quota exceeded: {SLOTS}: 1/1 (position 2)"
    assert message(decisions, "b1") == f"Account quota exceeded: {SLOTS}: 1/1 (position 1)"


def test_a_position_in_a_queue_for_everybody_counts_the_turns() -> None:
    decisions = admissions([A1, A2, A3, B1], make_limits(slots=0), make_situation())
    positions = {id: message(decisions, id).partition("(")[2] for id in decisions}
    assert positions == {"a1": "position 1)", "b1": "position 2)", "a2": "position 3)", "a3": "position 4)"}


@pytest.mark.parametrize(
    ("waiting", "text"),
    [(10, "position 10"), (11, "position up to 20"), (50, "position up to 50"), (51, "position up to 100")],
)
def test_far_behind_a_position_is_reported_in_steps(waiting: int, text: str) -> None:
    claims = [make_claim(f"c{n}", minute=n) for n in range(waiting)]
    decisions = admissions(claims, make_limits(slots=0), make_situation())
    assert message(decisions, f"c{waiting - 1}").endswith(f"({text})")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"principal": "*", "resource": "*", "flavor": "*"}, "exempt"),
        ({"principal": "accounts/a", "resource": SLOTS, "flavor": "Total"}, "exempt"),
        ({"principal": "accounts/b", "resource": "*", "flavor": "*"}, ""),
        ({"principal": "*", "resource": GPUS, "flavor": "*"}, ""),
        ({"principal": "*", "resource": "*", "flavor": "Rate"}, ""),
    ],
)
def test_an_exempt_one_passes_those_who_wait(selector: dict[str, str], expected: str) -> None:
    context = json.dumps({"securityContext": {"ignoreQuotas": [selector]}})
    waiting = make_claim("exempt", "a", 5, content=context.encode())
    limits = ExemptingLimits(make_limits(own_slots=0))
    assert admitted(admissions([A1, waiting], limits, make_situation(minute=100))) == expected


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        (None, "Account quota exceeded: slots: 1/1 (position 2)", True),
        (
            "Account quota exceeded: slots: 3/4 (position 2)",
            "Account quota exceeded: slots: 2/4 (position 2)",
            False,
        ),
        (
            "Account quota exceeded: slots: 4/4 (position 2)",
            "Account quota exceeded: slots: 4/5 (position 2)",
            True,
        ),
        (
            "Account quota exceeded: slots: 4/4 (position 2)",
            "Account quota exceeded: slots: 4/4 (position 1)",
            True,
        ),
        (
            "Account quota exceeded: slots: 4/4 (position 1)",
            "Global quota exceeded: slots: 4/4 (position 1)",
            True,
        ),
    ],
)
def test_what_is_in_use_is_no_news(before: str | None, after: str, news: bool) -> None:
    earlier = Wait("QuotaLimit", before) if before else None
    assert is_news(earlier, Wait("QuotaLimit", after)) is news


# ---- random worlds

_claims = st.lists(
    st.builds(
        lambda number, account, minute, gpus: make_claim(f"c{number:04}", account, minute, gpus=gpus),
        st.integers(0, 9999),
        st.sampled_from("abc"),
        st.integers(0, 120),
        st.sampled_from([0, 0, 1, 2, 8]),
    ),
    max_size=25,
    unique_by=lambda claim: claim.id,
)
_limits = st.builds(make_limits, *(st.integers(0, 12) for _ in range(4)))


@settings(deadline=None)
@given(_claims, _claims, _limits)
def test_never_beyond_a_quota_and_in_order(claims: list[Claim], others: list[Claim], limits: Totals) -> None:
    held = [replace(other, id=f"held-{other.id}") for other in others if not limits.shortages(other, ())][:3]
    decisions = admissions(claims, limits, make_situation(held, minute=120))
    taken, by_id = list(held), {claim.id: claim for claim in claims}
    for id in admitted(decisions).split():
        assert not limits.shortages(by_id[id], taken)
        taken.append(by_id[id])
    for claim in claims:
        if isinstance(decisions[claim.id], Wait):  # none like it has passed it
            later = [other for other in claims if (other.created, other.id) > (claim.created, claim.id)]
            alike = [
                other
                for other in later
                if (other.account, other.quantities) == (claim.account, claim.quantities)
            ]
            assert all(isinstance(decisions[other.id], Wait) for other in alike)


@pytest.mark.parametrize(
    ("slots", "gpus", "arrivals"),
    [
        pytest.param(100, (1, 2, 2), (1, 3), id="GPUs are short"),
        pytest.param(6, (0, 0, 1, 2), (0, 2), id="slots are short too"),
    ],
)
def test_nobody_starves(slots: int, gpus: tuple[int, ...], arrivals: tuple[int, int]) -> None:
    """A big one along with an endless stream of small ones, more than there is room for, of its own account and
    others."""
    waits = [
        _wait_of_the_big_one(Random(seed), make_limits(slots=slots, gpus=8), gpus, arrivals)
        for seed in range(15)
    ]
    assert max(waits) < 60 + 4 * LONGEST


LONGEST, HORIZON = 15, 200


def _wait_of_the_big_one(
    rng: Random, limits: Totals, gpus: tuple[int, ...], arrivals: tuple[int, int]
) -> int:
    """Minutes from its arrival to its admission; one GPU is in use when it comes."""
    turns = dict[str, float]()
    held = [(make_claim("first", "b", gpus=1), LONGEST)]  # and when they end
    waiting = [make_claim("big", "a", gpus=8)]
    for minute in range(HORIZON):
        held = [(claim, end) for claim, end in held if end > minute]
        for account in rng.choices("aabc", k=rng.randint(*arrivals)):
            waiting.append(
                make_claim(f"{account}-{minute}-{len(waiting)}", account, minute, gpus=rng.choice(gpus))
            )
        decisions = admissions(waiting, limits, make_situation([claim for claim, _ in held], minute, turns))
        taken = [claim for claim in waiting if isinstance(decisions[claim.id], Admit)]
        if any(claim.id == "big" for claim in taken):
            return minute
        held += [(claim, minute + rng.randint(1, LONGEST)) for claim in taken]
        turns |= {f"{claim.account} {resource}": minute for claim in taken for resource in claim.quantities}
        waiting = [claim for claim in waiting if claim not in taken]
    return HORIZON
