"""Commands: the envelopes of the published schema, and the faults of other messages."""

import json

import pytest

from steelyard_schema.commands import (
    FutureSchema,
    MalformedCommand,
    UpdateEntityStatus,
    check_version,
    parse_command,
)

A = "0" * 31 + "a"

VERIFIED = {
    "reason and message": '{"status":"Created","reason":"QuotaLimit","message":"Account quota exceeded: 1/1"}',
    "cleared": '{"status":"Complete","reason":null,"message":null}',
    "status alone": '{"status":"Admitted"}',
}


@pytest.mark.parametrize("attributes", VERIFIED.values(), ids=VERIFIED)
def test_a_status_command_goes_through_unchanged(attributes: str) -> None:
    data = {"id": A, "kind": "Evaluation", "attributes": json.loads(attributes)}
    message = json.dumps({"schemaVersion": "0.1", "command": "UpdateEntityStatus", "data": data})
    command = parse_command(message.encode())
    assert isinstance(command, UpdateEntityStatus)
    assert json.loads(command.dump_json()) == json.loads(message)


OTHERS = {
    "labels": {"command": "EditEntityLabels", "attributes": {"labels": {"a": "b", "c": None}}},
    "documentation": {
        "command": "EditEntityDocumentation",
        "attributes": {"documentation": {"title": "T", "summary": None}},
    },
    "team": {"command": "EditTeam", "attributes": {"members": {"rusty": None}}},
    "rules": {
        "command": "EditChallengeRules",
        "attributes": {"rules": {"visibility": {"teams": {"nobody": None, "t": "public"}}}},
    },
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_nulls_of_a_merge_patch_are_kept(case: dict[str, object]) -> None:
    envelope = {
        "schemaVersion": "0.1",
        "command": case["command"],
        "data": {"id": A, "kind": "Model", "attributes": case["attributes"]},
    }
    command = parse_command(json.dumps(envelope).encode())
    assert json.loads(command.dump_json()) == envelope


MALFORMED = {
    "no JSON": (b"{", "Invalid JSON"),
    "no command": (b'{"schemaVersion":"0.1"}', "command"),
    "no such command": (b'{"schemaVersion":"0.1","command":"Explode","data":{}}', "Explode"),
    "unknown field": (
        b'{"schemaVersion":"0.1","command":"ForgetEntity","data":{"id":"a","kind":"Model","x":1}}',
        r"^ForgetEntity\.data\.x: is not a field here, with the value 1; there are expectedRevision, ",
    ),
    "no version": (b'{"schemaVersion":"new","command":"ForgetEntity","data":{}}', "schemaVersion"),
}


@pytest.mark.parametrize(("message", "named"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_named(message: bytes, named: str) -> None:
    with pytest.raises(MalformedCommand, match=named):
        parse_command(message)


def test_a_schema_of_the_future_is_not_malformed() -> None:
    with pytest.raises(FutureSchema, match=r"0\.2"):
        parse_command(b'{"schemaVersion":"0.2","command":"ForgetEntity","data":{"id":"a","kind":"Model"}}')


def test_a_patch_of_the_schema_is_not_of_the_future() -> None:
    check_version("0.1.0")
    check_version("0.1.7")
    with pytest.raises(FutureSchema):
        check_version("0.2.0")
