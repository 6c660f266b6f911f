"""Requests that are sent again: when, how long after, and that nothing is done twice."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from steelyard.client.conftest import Ask
from steelyard.client.errors import ApiError, RateLimited, Unavailable, Unreachable
from steelyard.client.retries import Retries, retry_after
from steelyard.client.test_client import FIELDS, make_session
from steelyard.testing.platform import AT_ONCE, FakePlatform, lost, refused, unreachable

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def sure(low: float, high: float) -> float:
    return high


def answer(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_pauses_double_up_to_the_longest_and_end() -> None:
    retries = Retries(tries=7, first=1, longest=8, between=sure)
    pauses = [retries.after_answer(number, answer(503)) for number in range(1, 8)]
    assert pauses == [1, 2, 4, 8, 8, 8, None]


def test_every_pause_is_anywhere_between_nothing_and_its_length() -> None:
    pauses: list[tuple[float, float]] = []

    def between(low: float, high: float) -> float:
        pauses.append((low, high))
        return low

    retries = Retries(first=1, between=between)
    assert [retries.after_answer(number, answer(502)) for number in (1, 2, 3)] == [0, 0, 0]
    assert pauses == [(0, 1), (0, 2), (0, 4)]


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert Retries().after_answer(1, answer(status)) is not None


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 413, 422, 500, 501])
def test_what_will_not_change_is_not(status: int) -> None:
    assert Retries().after_answer(1, answer(status)) is None


AFTER = {
    "seconds": ("7", 7.0),
    "parts of a second": ("0.5", 0.5),
    "a date": (format_datetime(NOW + timedelta(seconds=9), usegmt=True), 9.0),
    "a date that is past": (format_datetime(NOW - timedelta(seconds=9), usegmt=True), 0.0),
    "nonsense": ("soon", None),
    "nothing": ("", None),
    "other digits": ("²", None),
}


@pytest.mark.parametrize(("text", "seconds"), AFTER.values(), ids=AFTER)
def test_retry_after_is_read_in_both_forms(text: str, seconds: float | None) -> None:
    response = httpx.Response(503, headers=[(b"retry-after", text.encode())])
    assert retry_after(response, NOW) == seconds


def test_no_try_comes_before_the_time_asked_for() -> None:
    retries = Retries(first=0.5, between=sure)
    assert retries.after_answer(1, answer(429, retry_after="7")) == 7.5
    assert retries.after_answer(1, answer(429, retry_after="61")) is None, "that is for the caller to decide"


@pytest.mark.parametrize("trouble", [unreachable, refused(503), refused(429, "RateLimited"), refused(504)])
def test_trouble_that_passes_is_not_noticed(trouble: Any, ask: Ask, fake: FakePlatform) -> None:
    made = ask(fake, lambda client: client.datasets.create(**FIELDS))
    fake.trouble.extend([trouble, trouble])
    assert ask(fake, lambda client: client.datasets.get(made.id)) == made


def test_an_entity_whose_answer_was_lost_is_made_once(ask: Ask, fake: FakePlatform) -> None:
    fake.trouble.extend([lost, refused(502), lost])
    retries = Retries(first=0, unmet=8)
    made = ask(fake, lambda client: client.datasets.create(**FIELDS), retries)
    assert [dataset["id"] for dataset in fake.entities("datasets")] == [made.id]
    assert len({request.headers["idempotency-key"] for request in fake.requests}) == 1
    assert len({request.headers["x-request-id"] for request in fake.requests}) == 1


def test_two_requests_have_two_keys(ask: Ask, fake: FakePlatform) -> None:
    for _ in range(2):
        ask(fake, lambda client: client.datasets.create(**FIELDS))
    assert len(fake.entities("datasets")) == 2


def test_every_request_that_changes_something_has_a_key(ask: Ask, fake: FakePlatform) -> None:
    id = ask(fake, lambda client: client.datasets.create(**FIELDS)).id
    session = make_session(fake)
    fake.objects[f"{id}/a.parquet"] = b"rows"
    for do in (
        lambda client: client.datasets.label(id, {"a": "b"}),
        lambda client: client.datasets.edit_documentation(id, title="T"),
        lambda client: client.datasets.finalize(id),
        lambda client: client.evaluations.terminate(session),
        lambda client: client.datasets.delete(id),
        lambda client: client.inferencesessions.token(session),
        lambda client: client.inferencesessions.infer(session, "x", {}, token="session-secret"),
    ):
        ask(fake, do)
    changing = [request for request in fake.requests if request.method != "GET"]
    assert len(changing) == 8
    assert len({request.headers["idempotency-key"] for request in changing}) == 8


def test_trouble_that_stays_is_reported(ask: Ask, fake: FakePlatform) -> None:
    fake.trouble.extend([refused(503)] * 20)
    with pytest.raises(Unavailable, match="there is trouble"):
        ask(fake, lambda client: client.datasets.get("0" * 32), AT_ONCE)
    assert len(fake.requests) == AT_ONCE.tries


def test_a_wrong_address_is_reported_soon_and_a_restart_is_waited_for(fake: FakePlatform) -> None:
    fake.trouble.extend([unreachable] * 20)
    with fake.client() as client:
        with pytest.raises(
            Unreachable, match=r"http://fake/v0 does not answer: connection refused; does it run"
        ):
            client.datasets.get("0" * 32)
        assert len(fake.requests) == AT_ONCE.unmet
        fake.trouble.clear()
        made = client.datasets.create(**FIELDS)
        fake.trouble.extend([unreachable] * (AT_ONCE.tries - 1))
        assert client.datasets.get(made.id) == made


def test_a_model_is_not_asked_twice_when_its_answer_was_lost(ask: Ask, fake: FakePlatform) -> None:
    id = make_session(fake)
    fake.trouble.append(lost)
    with pytest.raises(Unreachable):
        ask(fake, lambda client: client.inferencesessions.infer(id, "x", {}, token="session-secret"))
    assert len(fake.requests) == 1
    fake.trouble.append(refused(502, "BadGateway"))
    with pytest.raises(Unavailable):
        ask(fake, lambda client: client.inferencesessions.infer(id, "x", {}, token="session-secret"))


def test_a_model_that_was_not_reached_is_asked_again(ask: Ask, fake: FakePlatform) -> None:
    id = make_session(fake)
    fake.trouble.extend([unreachable, refused(503), refused(429)])
    inferred = ask(fake, lambda client: client.inferencesessions.infer(id, "x", {}, token="session-secret"))
    assert inferred == {"endpoint": "x", "asked": {}}


def test_a_drop_that_may_have_been_done_is_not_repeated(ask: Ask, fake: FakePlatform) -> None:
    for trouble, error in ((lost, Unreachable), (refused(502, "BadGateway"), Unavailable)):
        fake.requests.clear()
        fake.trouble.append(trouble)
        with pytest.raises(error):
            ask(fake, lambda client: client.quarantine.drop("0" * 32))
        assert len(fake.requests) == 1


def test_one_try_is_one(fake: FakePlatform) -> None:
    fake.trouble.extend([refused(429, "RateLimited")] * 2)
    with fake.client(Retries(tries=1)) as client, pytest.raises(RateLimited) as caught:
        client.datasets.get("0" * 32)
    assert isinstance(caught.value, ApiError)
    assert len(fake.requests) == 1
