"""Addresses of Kafka clusters are read whole, or refused with what is wrong."""

from pathlib import Path

import pytest

from steelyard.broker.log import LogError

pytest.importorskip("confluent_kafka")
from steelyard.broker.kafka.address import PASSWORD, parse


def test_an_address_names_brokers_and_prefix() -> None:
    address = parse("kafka://a:9092,b:9093/team.a")
    assert address.brokers == "a:9092,b:9093"
    assert address.topic("workflows.events") == "team.a.workflows.events"
    assert parse("kafka://a:9092").topic("workflows.events") == "workflows.events"


def test_a_user_logs_in_encrypted_unless_the_address_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "from the environment")
    client = parse("kafka://u%40x@a:9092").client()
    assert client["sasl.username"] == "u@x"
    assert client["sasl.password"] == "from the environment"
    assert (client["security.protocol"], client["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    plain = parse("kafka://u:p%2F@a:9092?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN").client()
    assert (plain["sasl.password"], plain["security.protocol"]) == ("p/", "SASL_PLAINTEXT")


def test_a_password_is_in_no_message() -> None:
    assert "secret" not in parse("kafka://u:secret@a:9092").url
    with pytest.raises(LogError) as refusal:
        parse("kafka://u:secret@a")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("kafka://", "broker ''"),
        ("kafka://a", "broker 'a'"),
        ("kafka://a:9092,b:port", "broker 'b:port'"),
        ("kafka://a:9092/b/c", "prefix 'b/c'"),
        ("kafka://a:9092?acks=0", "'acks'"),
        ("kafka://a:9092?nonsense", "nonsense"),
    ],
)
def test_a_wrong_address_is_refused_with_what_is_wrong(url: str, named: str) -> None:
    with pytest.raises(LogError) as refusal:
        parse(url)
    assert named in str(refusal.value)
    assert "kafka://HOST:PORT" in str(refusal.value) or "prefix" in named or "acks" in named


def test_a_password_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("from a file\n")
    monkeypatch.setenv(f"{PASSWORD}_FILE", str(tmp_path / "password"))
    assert parse("kafka://user@k:9092/p").security["sasl.password"] == "from a file"
    assert parse("kafka://user:own@k:9092/p").security["sasl.password"] == "own"
    monkeypatch.setenv(f"{PASSWORD}_FILE", str(tmp_path / "absent"))
    with pytest.raises(LogError, match=r"PASSWORD_FILE .*absent cannot be read"):
        parse("kafka://user@k:9092/p")
    monkeypatch.setenv(PASSWORD, "another")
    with pytest.raises(LogError, match="PASSWORD is set, too; leave one of them out"):
        parse("kafka://user@k:9092/p")
