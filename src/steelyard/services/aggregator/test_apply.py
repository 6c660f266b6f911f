"""Effects of each command on an entity in each state: tables over the pure function."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from steelyard.broker.log import OUTCOMES, STATE, Message, Record
from steelyard.services.aggregator.apply import apply_command
from steelyard.services.aggregator.messages import FORGOTTEN, RECENT, State, read_state
from steelyard.services.simulation.commands import (
    create,
    documentation,
    forget,
    labels,
    message,
    record,
    restore,
    status,
)
from steelyard.services.simulation.entities import START, make_evaluation, make_model, make_service
from steelyard.services.status_commands import NAMESPACE, Status, status_command
from steelyard_common.types import Json
from steelyard_schema.bounds import ENTITY_BYTES, MESSAGE_LENGTH
from steelyard_schema.commands import Command, parse_command
from steelyard_schema.names import account_namespace

EPOCH = 2
EVALUATION = make_evaluation()
HOUR = timedelta(hours=1)


class Entity:
    """One entity's commands in their order, and what they have made of it."""

    def __init__(self, *commands: Command) -> None:
        self.offset = 0
        self.state: State | None = None
        self.outcome: Json = {}
        for command in commands:
            self.does(command)

    def does(self, command: Command, source: str = "api", **more: Any) -> str:
        """Apply a command; return its outcome."""
        self.offset += 1
        return self.reads(record(message(command, source, **more), self.offset))

    def reads(self, sent: Record) -> str:
        assert sent.value is not None
        applied = apply_command(parse_command(sent.value), sent, self.state, EPOCH)
        if applied is None:
            return "seen"
        self.outcome = orjson.loads(applied.outcome.value or b"")
        assert (applied.outcome.topic, applied.outcome.key) == (OUTCOMES, sent.key)
        assert self.outcome["command"] == sent.headers["id"]
        assert (self.outcome["outcome"] == "applied") == (applied.state is not None)
        if applied.state is not None:
            assert (applied.state.topic, applied.state.partition) == (STATE, sent.partition)
            self.state = read_state(_kept(applied.state, sent))
        return str(self.outcome["outcome"])

    @property
    def content(self) -> Json:
        assert self.state is not None
        assert self.state.content is not None
        return self.state.content


def _kept(changed: Message, sent: Record) -> Record:
    return replace(sent, topic=STATE, value=changed.value, headers=changed.headers)


def in_status(*path: str) -> Entity:
    """An evaluation that has come so far: `source:status`, each."""
    entity = Entity(create(EVALUATION))
    for step in path:
        source, _, new = step.partition(":")
        assert entity.does(status(EVALUATION, new), source) == "applied"
    return entity


TRANSITIONS = {
    "a late Admitted does not undo Complete": (["informer:Complete"], "orchestrator", "Admitted", "rejected"),
    "nor does the informer's": (["informer:Complete"], "informer", "Admitted", "rejected"),
    "a late Complete does not undo Deleted": (["api:Deleted"], "informer", "Complete", "rejected"),
    "a late Complete does not undo Terminated": (["api:Terminated"], "informer", "Complete", "rejected"),
    "a late Failed does not undo Complete": (["informer:Complete"], "informer", "Failed", "rejected"),
    "the orchestrator admits": ([], "orchestrator", "Admitted", "applied"),
    "and fails what is not admitted": ([], "orchestrator", "Error", "applied"),
    "and nothing later": (["orchestrator:Admitted"], "orchestrator", "Error", "rejected"),
    "not even back": (["orchestrator:Admitted"], "orchestrator", "Created", "rejected"),
    "the informer may be first": ([], "informer", "Complete", "applied"),
    "the api does not complete": (["orchestrator:Admitted"], "api", "Complete", "rejected"),
    "what is complete is not terminated": (["informer:Complete"], "api", "Terminated", "rejected"),
    "what is complete is deleted": (["informer:Complete"], "api", "Deleted", "applied"),
    "once": (["api:Deleted"], "api", "Deleted", "unchanged"),
    "who is nobody may nothing": ([], "stranger", "Admitted", "rejected"),
    "a status that is none": ([], "api", "Fine", "rejected"),
}


@pytest.mark.parametrize(("path", "source", "new", "outcome"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_one_table_says_who_may_change_a_status(path: list[str], source: str, new: str, outcome: str) -> None:
    entity = in_status(*path)
    before = entity.state
    assert entity.does(status(EVALUATION, new), source) == outcome
    assert (entity.state is before) == (outcome != "applied")
    assert entity.outcome["reason"] == ("Conflict" if outcome == "rejected" else None)


@pytest.mark.parametrize(
    ("namespace", "outcome"),
    [(account_namespace(EVALUATION.account), "applied"), ("acct-mallory", "rejected"), ("", "rejected")],
    ids=["the account's own", "another", "none"],
)
def test_a_resource_speaks_only_for_entities_of_its_namespaces_account(namespace: str, outcome: str) -> None:
    entity = in_status("orchestrator:Admitted")
    sent = record(message(status(EVALUATION, "Complete"), "informer"), entity.offset + 1)
    assert entity.reads(replace(sent, headers={**sent.headers, NAMESPACE: namespace})) == outcome
    assert entity.content["status"] == ("Complete" if outcome == "applied" else "Admitted")


def test_a_state_says_which_command_it_comes_from() -> None:
    entity = Entity()
    sent = record(message(create(EVALUATION), actor="accounts/a", request="r1"), 7, partition=5)
    entity.reads(sent)
    assert entity.state is not None
    assert entity.state.headers == {
        **sent.headers, "epoch": "2", "partition": "5", "offset": "7", "recent": sent.headers["id"][:12]
    }  # fmt: skip
    assert entity.content["metadata"]["revision"] == sent.headers["id"]
    assert not {"actor", "request", "offset", "partition"} & entity.content.keys()
    assert (entity.outcome["partition"], entity.outcome["offset"]) == (5, 7)


def test_the_trace_of_an_entity_is_that_of_the_request_that_created_it() -> None:
    entity = Entity()
    first, later = (f"00-{digit * 32}-{digit * 16}-01" for digit in "12")
    entity.does(create(EVALUATION), traceparent=first)
    assert entity.does(status(EVALUATION, "Admitted"), "orchestrator", traceparent=later) == "applied"
    assert entity.state is not None
    assert entity.state.headers["traceparent"] == first


def test_times_come_from_the_command() -> None:
    entity = Entity(create(EVALUATION))
    entity.does(status(EVALUATION, "Admitted"), "orchestrator", after=HOUR)
    assert entity.content["lastTransitionTime"] == "2026-01-01T01:00:00.000000Z"
    entity.does(status(EVALUATION, "Admitted", "Unverified"), "informer", after=2 * HOUR)
    assert entity.content["lastTransitionTime"] == "2026-01-01T01:00:00.000000Z", (
        "only its reason has changed"
    )


def test_reason_and_message_go_with_what_they_explain() -> None:
    entity = Entity(create(EVALUATION))
    entity.does(status(EVALUATION, "Created", "QuotaLimit", "position 3"), "orchestrator")
    assert (entity.content["reason"], entity.content["message"]) == ("QuotaLimit", "position 3")
    again = status(EVALUATION, "Created", "QuotaLimit", "position 3")
    assert entity.does(again, "orchestrator") == "unchanged"
    entity.does(status(EVALUATION, "Complete", "Verified", "all rows"), "informer")
    assert not {"reason", "message"} & entity.content.keys(), "success needs no explanation"
    assert entity.does(status(EVALUATION, "Complete", "Again"), "informer") == "unchanged"


def test_what_was_seen_is_passed_over() -> None:
    entity = Entity()
    commands: tuple[Command, ...] = (create(EVALUATION), labels(EVALUATION, a="1"))
    sent = [record(message(command), at) for at, command in enumerate(commands)]
    assert [entity.reads(item) for item in sent] == ["applied", "applied"]
    assert [entity.reads(item) for item in sent] == ["seen", "seen"]


def test_a_doubled_command_is_known_by_its_id() -> None:
    entity = Entity(create(EVALUATION))
    first = message(labels(EVALUATION, a="1"))
    assert entity.reads(record(first, 10)) == "applied"
    entity.offset = 11
    assert entity.does(labels(EVALUATION, a="2")) == "applied"
    assert entity.reads(record(first, 20)) == "unchanged"
    assert entity.outcome["reason"] == "Repeated"
    assert entity.content["labels"] == {"a": "2"}


def test_the_ids_that_are_remembered_are_bounded() -> None:
    entity = Entity(create(EVALUATION))
    for number in range(2 * RECENT):
        entity.does(labels(EVALUATION, a=str(number)))
    assert entity.state is not None
    assert len(entity.state.recent) == RECENT


def test_another_epoch_starts_again() -> None:
    """Offsets of another log say nothing; the ids of the last commands still do."""
    entity = Entity(create(EVALUATION), labels(EVALUATION, a="1"))
    assert entity.state is not None
    sent = record(message(labels(EVALUATION, a="2")), 0)
    applied = apply_command(parse_command(sent.value or b""), sent, entity.state, EPOCH + 1)
    assert applied is not None
    assert applied.state is not None
    assert (applied.state.headers["epoch"], applied.state.headers["offset"]) == (str(EPOCH + 1), "0")


@pytest.mark.parametrize(
    "command",
    [
        status(EVALUATION, "Complete"),
        labels(EVALUATION, a="1"),
        documentation(EVALUATION, title="x"),
        restore(EVALUATION),
        forget(EVALUATION),
    ],
    ids=lambda command: command.command,
)
def test_who_is_unknown_or_forgotten_is_not_made_by_an_edit(command: Command) -> None:
    entity = Entity()
    assert entity.does(command, "informer") == "rejected"
    assert (entity.outcome["reason"], entity.state) == ("NotFound", None)
    entity = Entity(create(EVALUATION), status(EVALUATION, "Deleted"), forget(EVALUATION))
    marker = entity.state
    assert entity.does(command, "informer") == (
        "unchanged" if command.command == "ForgetEntity" else "rejected"
    )
    assert entity.state is marker


OTHERS: Json = {"account": "b" * 32, "dataset": "d9", "replications": 7, "creationTime": START + HOUR}


def test_a_create_that_comes_again_changes_nothing() -> None:
    entity = Entity(create(EVALUATION), labels(EVALUATION, a="1"))
    assert entity.does(create(EVALUATION)) == "unchanged"
    assert entity.content["labels"] == {"a": "1"}
    assert entity.does(create(make_model(EVALUATION.id))) == "rejected"


@pytest.mark.parametrize("field", OTHERS)
def test_a_create_of_something_else_by_the_same_id_is_refused(field: str) -> None:
    entity = Entity(create(EVALUATION))
    before = entity.state
    assert entity.does(create(make_evaluation(**{field: OTHERS[field]}))) == "rejected"
    assert entity.outcome["message"].startswith(f"{field}: there is another")
    assert entity.state is before


def test_a_create_that_an_older_program_wrote_down_without_a_default_is_the_same() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.state is not None
    older = {name: value for name, value in entity.content.items() if name != "replications"}
    entity.state = replace(entity.state, content=older)
    assert entity.does(create(EVALUATION)) == "unchanged"


def test_an_edit_of_another_kind_is_none_of_this_entity() -> None:
    entity = Entity(create(EVALUATION), status(EVALUATION, "Deleted"))
    other = make_model(EVALUATION.id)
    for command in (status(other, "Deleted"), labels(other, a="1"), forget(other), restore(other)):
        assert entity.does(command) == "rejected"
        assert entity.outcome["message"].startswith("kind: is Evaluation")


def test_edits_are_merge_patches() -> None:
    entity = Entity(create(EVALUATION), labels(EVALUATION, a="1", b="2"), labels(EVALUATION, a=None, c="3"))
    assert entity.content["labels"] == {"b": "2", "c": "3"}
    assert entity.does(labels(EVALUATION, c="3", a=None)) == "unchanged"
    entity.does(documentation(EVALUATION, title="t", summary="s"))
    entity.does(documentation(EVALUATION, title=None))
    assert entity.content["metadata"]["documentation"] == {"summary": "s"}
    entity.does(status(EVALUATION, "Deleted"))
    assert entity.does(labels(EVALUATION, d="4")) == "rejected"
    assert entity.does(documentation(EVALUATION, title="u")) == "rejected"


@pytest.mark.parametrize(
    ("said", "outcome"), [("{}", "applied"), ('"{}"', "applied"), ("*", "applied"), ("f" * 32, "rejected")]
)
def test_if_match_is_honoured(said: str, outcome: str) -> None:
    entity = Entity(create(EVALUATION))
    match = said.format(entity.content["metadata"]["revision"])
    assert entity.does(labels(EVALUATION, a="1"), **{"if-match": match}) == outcome


def test_only_what_is_deleted_is_restored_and_by_the_same_entity() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.does(restore(EVALUATION)) == "rejected"
    entity.does(status(EVALUATION, "Deleted"))
    revision = entity.content["metadata"]["revision"]
    assert entity.does(restore(EVALUATION, ifRevisionMatch="0" * 32)) == "rejected"
    assert entity.does(restore(EVALUATION, ifRevisionUndefined=True)) == "rejected"
    for field, value in OTHERS.items():
        assert entity.does(restore(make_evaluation(**{field: value}))) == "rejected"
        assert entity.outcome["message"].startswith(f"entity.{field}: is that of another")
    for none in ("Deleted", "Ready"):
        assert entity.does(restore(make_evaluation(status=none))) == "rejected"
        assert entity.outcome["message"].startswith(f"entity.status: is {none}; should be one of Created")
    assert entity.does(restore(EVALUATION, ifRevisionMatch=revision)) == "applied"
    assert entity.content["status"] == "Created"


def test_only_what_is_still_as_it_was_is_forgotten() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.does(forget(EVALUATION), "reaper") == "rejected", "it is not Deleted"
    entity.does(status(EVALUATION, "Deleted"))
    revision = entity.content["metadata"]["revision"]
    assert entity.does(forget(EVALUATION, expectedStatus="Created"), "reaper") == "rejected"
    assert entity.does(forget(EVALUATION, expectedRevision="0" * 32), "reaper") == "rejected"
    still = forget(EVALUATION, expectedStatus="Deleted", expectedRevision=revision)
    entity.does(restore(EVALUATION))
    entity.does(status(EVALUATION, "Deleted"))
    assert entity.does(still, "reaper") == "rejected", "it was restored meanwhile"


def test_what_is_forgotten_leaves_a_marker_without_data_and_stays_forgotten() -> None:
    entity = Entity(create(EVALUATION), status(EVALUATION, "Deleted"))
    assert entity.does(forget(EVALUATION), "reaper", after=HOUR) == "applied"
    assert entity.state is not None
    assert (entity.state.content, entity.state.buried) == (None, False)
    assert entity.state.headers[FORGOTTEN] == "2026-01-01T01:00:00.000000Z"
    assert entity.state.headers["kind"] == "Evaluation"
    assert entity.does(create(EVALUATION)) == "rejected"
    assert entity.outcome["reason"] == "Forgotten"


def test_a_marker_becomes_a_tombstone_once_no_command_can_be_left() -> None:
    entity = Entity(create(EVALUATION), status(EVALUATION, "Deleted"), forget(EVALUATION))
    assert entity.does(forget(EVALUATION), "reaper", after=timedelta(days=13, hours=23)) == "unchanged"
    assert entity.does(forget(EVALUATION), "api", after=timedelta(days=15)) == "unchanged"
    assert entity.does(forget(EVALUATION), "reaper", after=timedelta(days=14)) == "applied"
    assert entity.state is not None
    assert (entity.state.content, entity.state.buried) == (None, True)
    assert entity.state.position.offset == entity.offset
    assert entity.does(forget(EVALUATION), "reaper", after=timedelta(days=15)) == "rejected"


def test_commands_that_come_again_after_the_tombstone_revive_nothing() -> None:
    entity = Entity()
    sent = [
        record(
            message(
                command, "reaper" if command.command == "ForgetEntity" else "api", after=timedelta(days=at)
            ),
            at,
        )
        for at, command in (
            (0, create(EVALUATION)),
            (1, status(EVALUATION, "Deleted")),
            (8, forget(EVALUATION)),
            (9, create(EVALUATION)),
            (22, forget(EVALUATION)),
        )
    ]
    assert [entity.reads(item) for item in sent] == ["applied", "applied", "applied", "rejected", "applied"]
    assert [entity.reads(item) for item in sent] == ["seen"] * 5
    entity.offset = 30
    assert entity.does(create(EVALUATION)) == "applied", "whoever asks so late means a new one"


def test_what_would_grow_too_large_is_refused() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.does(documentation(EVALUATION, fullPage="x" * ENTITY_BYTES)) == "rejected"
    assert entity.outcome["reason"] == "TooLarge"
    assert entity.does(documentation(EVALUATION, fullPage="x" * (ENTITY_BYTES - 4096))) == "applied"


@pytest.mark.parametrize("said", ["\x01" * 100_000, "NUL \x00", "half \ud800", "𝄞" * 5000])
def test_an_entity_at_its_limit_still_fails_with_what_a_pod_has_said(said: str) -> None:
    entity = Entity(create(EVALUATION))
    documented = documentation(EVALUATION, fullPage="x" * (ENTITY_BYTES - 4096))
    assert entity.does(documented) == "applied"
    room = ENTITY_BYTES - len(orjson.dumps(entity.content))
    full = documentation(EVALUATION, fullPage="x" * (ENTITY_BYTES - 4096 + room))
    assert entity.does(full) == "applied"
    assert len(orjson.dumps(entity.content)) == ENTITY_BYTES
    assert entity.does(labels(EVALUATION, a="1")) == "rejected"
    patch = Status("Failed", reason="ClientFailed", message=said)
    command = status_command(
        EVALUATION.id, "Evaluation", patch, source="informer", time=START, command="c" * 32
    )
    entity.offset += 1
    assert entity.reads(record(command, entity.offset)) == "applied"
    assert entity.content["status"] == "Failed"
    assert len(entity.content["message"]) <= MESSAGE_LENGTH
    assert entity.does(restore(EVALUATION)) == "rejected", "it is not Deleted"


def test_what_another_program_says_of_a_status_is_cut_too() -> None:
    entity = Entity(create(EVALUATION))
    assert (
        entity.does(status(EVALUATION, "Admitted", message="\x00" + "m" * 5000), "orchestrator") == "applied"
    )
    assert entity.content["message"] == "\ufffd" + "m" * (MESSAGE_LENGTH - 2) + "…"


def test_an_entity_that_an_older_schema_took_can_be_deleted() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.state is not None
    entity.state = replace(entity.state, content={**entity.content, "replications": 10**30})
    assert entity.does(labels(EVALUATION, a="1")) == "rejected"
    assert entity.outcome["reason"] == "Invalid"
    entity.state = replace(entity.state, content={**entity.content, "replications": 10**18})
    assert entity.does(status(EVALUATION, "Deleted")) == "applied"


def test_a_field_that_is_gone_from_the_schema_is_reported_with_those_that_there_are() -> None:
    entity = Entity(create(EVALUATION))
    assert entity.state is not None
    entity.state = replace(entity.state, content={**entity.content, "colour": "red"})
    assert entity.does(labels(EVALUATION, a="1")) == "rejected"
    said = "Evaluation.colour: is not a field here, with the value 'red'; there are account, "
    assert entity.outcome["message"].startswith(said)


def test_what_would_be_no_entity_is_refused_and_puts_none_into_quarantine() -> None:
    entity = Entity(create(make_service()))
    assert entity.state is not None
    broken = replace(entity.state, content={**entity.content, "runner": "none"})
    sent = record(message(labels(make_service(), a="1")), 9)
    applied = apply_command(parse_command(sent.value or b""), sent, broken, EPOCH)
    assert applied is not None
    assert applied.state is None
    outcome = orjson.loads(applied.outcome.value or b"")
    assert (outcome["outcome"], outcome["reason"]) == ("rejected", "Invalid")
    assert "runner" in outcome["message"]


def test_a_command_that_is_not_implemented_is_said_so() -> None:
    sent = message(labels(EVALUATION, a="1"))
    data = {"id": "e1", "kind": "Quota", "attributes": {"usage": "3"}}
    value = orjson.dumps({"schemaVersion": "0.1", "command": "UpdateQuotaUsage", "data": data})
    applied = apply_command(parse_command(value), record(replace(sent, value=value), 1), None, EPOCH)
    assert applied is not None
    assert orjson.loads(applied.outcome.value or b"")["reason"] == "NotImplemented"


@pytest.mark.parametrize("value", [None, b"{}"])
def test_a_record_that_says_nothing_of_a_command_is_no_state(value: bytes | None) -> None:
    assert read_state(None) is None
    assert read_state(Record(STATE, 0, 0, "e1", value, {}, START)) is None
