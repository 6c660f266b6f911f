"""Signed URLs: what they permit, and what they do not."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.storage.signing import BadSignature, Signer
from steelyard_evaluation.storage.store import BadLocation

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SIGNER = Signer(b"secret", "http://host/v0/objects")
MD5 = {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
SENT = {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==", "host": "host"}


def parts(url: str) -> tuple[str, str]:
    split = urlsplit(url)
    return split.path.removeprefix("/v0/objects/"), split.query


def test_a_signed_request_acts_on_its_object() -> None:
    signed = SIGNER.sign("PUT", "staging/a/b c+ü.parquet", LATER, MD5)
    assert signed.headers == {"content-md5": MD5["Content-MD5"]}
    assert signed.url.startswith("http://host/v0/objects/staging/a/b%20c%2B%C3%BC.parquet?")
    assert SIGNER.verify("PUT", *parts(signed.url), SENT, NOW) == "staging/a/b c+ü.parquet"


@pytest.mark.parametrize(
    ("method", "swap", "headers", "now", "why"),
    [
        ("GET", ("", ""), SENT, NOW, "signature"),
        ("PUT", ("staging/a", "staging/b"), SENT, NOW, "signature"),
        ("PUT", ("expires=1", "expires=2"), SENT, NOW, "signature"),
        ("PUT", ("headers=content-md5&", ""), SENT, NOW, "signature"),
        ("PUT", ("signature=", "signature=x"), SENT, NOW, "signature"),
        ("PUT", ("signature=", "unsigned="), SENT, NOW, "signature"),
        ("PUT", ("", ""), {}, NOW, "headers content-md5"),
        ("PUT", ("", ""), {"content-md5": "other"}, NOW, "headers content-md5"),
        ("PUT", ("", ""), SENT, LATER, "expires"),
    ],
)
def test_any_other_request_is_refused(
    method: str, swap: tuple[str, str], headers: dict[str, str], now: datetime, why: str
) -> None:
    url = SIGNER.sign("PUT", "staging/a", LATER, MD5).url
    if swap[0]:
        url = url.replace(*swap)
    with pytest.raises(BadSignature, match=why):
        SIGNER.verify(method, *parts(url), headers, now)


def test_a_url_names_the_token_that_asked_for_it() -> None:
    path, query = parts(SIGNER.sign("GET", "datasets/a", LATER, token="t1").url)
    assert SIGNER.verify("GET", path, query, {}, NOW) == "datasets/a"
    assert SIGNER.token(query) == "t1"
    for other in (query.replace("token=t1", "token=t2"), query.replace("token=t1&", "")):
        with pytest.raises(BadSignature, match="signature"):
            SIGNER.verify("GET", path, other, {}, NOW)
    path, query = parts(SIGNER.sign("GET", "datasets/a", LATER).url)
    with pytest.raises(BadSignature, match="signature"):
        SIGNER.verify("GET", path, f"token=t1&{query}", {}, NOW)


def test_another_secret_signs_otherwise() -> None:
    url = Signer(b"other", SIGNER.base_url).sign("GET", "datasets/a", LATER).url
    with pytest.raises(BadSignature):
        SIGNER.verify("GET", *parts(url), {}, NOW)


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("PUT", "datasets/a/b"),
        ("PUT", "stagingx/a"),
        ("PUT", "staging/../a"),
        ("DELETE", "staging/a"),
        ("GET", ""),
    ],
)
def test_what_is_final_or_none_of_ours_is_not_signed(method: str, key: str) -> None:
    with pytest.raises(BadLocation):
        SIGNER.sign(method, key, LATER)


@settings(deadline=None)
@given(
    key=st.lists(st.text("ab.%ü \n", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join),
    value=st.text("ab:\n", max_size=4),
)
def test_every_key_comes_back_and_no_part_runs_into_the_next(key: str, value: str) -> None:
    try:
        signed = SIGNER.sign("GET", key, LATER, {"x": value})
    except BadLocation:
        return
    assert SIGNER.verify("GET", *parts(signed.url), {"x": value}, NOW) == key
    with pytest.raises(BadSignature):
        SIGNER.verify("GET", *parts(signed.url), {"x": value + "a"}, NOW)
