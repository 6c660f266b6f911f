"""Tests of addresses in messages: a password is in none, however it is written."""

import pytest

from steelyard.engines.addresses import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:secret@db/name", "postgresql://user:***@db/name"),
        ("postgresql://user:se/cret@db:5432/name", "postgresql://user:***@db:5432/name"),
        ("postgresql://user:se@cret@db/name", "postgresql://user:***@db/name"),
        ("postgresql://user:se?cret#@db/name", "postgresql://user:***@db/name"),
        ("postgresql://user:12345@db/name", "postgresql://user:***@db/name"),
        ("postgresql:/user:secret@db/name", "postgresql:/user:***@db/name"),
        ("user:secret@db/name", "user:***@db/name"),
        ("mongodb:user:secret@db/name", "mongodb:***@db/name"),
        ("postgresql://user:/se//cret@db/name", "postgresql://user:***@db/name"),
        ("postgresql://user@db/name?password=secret", "postgresql://user@db/name?password=***"),
        (
            "mongodb://db/name?tlsCertificateKeyFilePassword=secret&tls=true",
            "mongodb://db/name?tlsCertificateKeyFilePassword=***&tls=true",
        ),
        ("kafka://user:secret@a:9092,b:9092/prefix", "kafka://user:***@a:9092,b:9092/prefix"),
        ("mongodb+srv://user:secret@db/name", "mongodb+srv://user:***@db/name"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user@db:5432/name",
        "kafka://user@a:9092,b:9092/prefix?ssl.ca.location=/etc/ca.pem",
        "mongodb://a:27017,b:27017/name?appName=me@here",
        "sqlite:/home/me@work/view.db",
        "sqlite:me@work/view.db",
        "localhost:5432/name",
        "file:///home/me@work:2/backup",
        "s3://bucket/prefix",
        "",
    ],
)
def test_an_address_without_a_password_stays_as_it_is(url: str) -> None:
    assert without_password(url) == url
