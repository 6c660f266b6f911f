"""Claims as they follow from the states of entities."""

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from pydantic import ValidationError

from steelyard.accounts.claims import Claim, ForgottenClaim
from steelyard.accounts.quotas import ADMITTED, resource_allocation
from steelyard.broker.log import STATE, Record
from steelyard.services.orchestrator.claim_parser import parse_claim
from steelyard.services.simulation.entities import (
    START,
    make_base,
    make_data_source,
    make_dataset,
    make_evaluation,
    make_model,
)
from steelyard_schema.base import DyffEntity
from steelyard_schema.pipeline_run import PipelineRun

LATER = START + timedelta(hours=1)


def record_of(entity: DyffEntity | None, **headers: str) -> Record:
    value = entity.dump_json().encode() if entity else None
    given = {"epoch": "3", "partition": "1", "offset": "42", **headers}
    return Record(STATE, 1, 7, "e1", value, given, START)


def test_a_state_becomes_a_claim() -> None:
    entity = make_evaluation(reason="QuotaLimit", message="Account quota exceeded: 1/1")
    id, claim = parse_claim(record_of(entity), resource_allocation)
    assert isinstance(claim, Claim)
    assert (id, claim.id, claim.kind, claim.account) == ("e1", "e1", "Evaluation", entity.account)
    assert (claim.status, claim.reason, claim.message) == ("Created", entity.reason, entity.message)
    assert claim.position == (3, 42), "of the command, not of the record"
    assert claim.blocked == {"d1", "s1"}
    assert claim.quantities == {"cpu": "2", "memory": "2Gi", ADMITTED: "1"}
    assert (claim.created, claim.admitted_at, claim.terminal_at) == (START, None, None)


@pytest.mark.parametrize(
    ("status", "admitted", "terminal"),
    [("Admitted", True, False), ("Complete", False, True), ("Deleted", False, True), ("Failed", False, True)],
)
def test_a_status_says_when_it_began(status: str, admitted: bool, terminal: bool) -> None:
    _, claim = parse_claim(
        record_of(make_evaluation(status=status, lastTransitionTime=LATER)), resource_allocation
    )
    assert isinstance(claim, Claim)
    assert claim.admitted_at == (LATER if admitted else None)
    assert claim.terminal_at == (LATER if terminal else None)
    assert claim.blocked == frozenset()


def test_what_runs_nowhere_holds_nothing() -> None:
    uploaded = make_data_source(status="WaitingForUpload", sourceKind="upload")
    for entity in (make_dataset(status="WaitingForUpload"), uploaded):
        _, claim = parse_claim(record_of(entity), resource_allocation)
        assert isinstance(claim, Claim)
        assert claim.quantities == {}


def test_an_admitted_run_of_a_pipeline_holds_nothing_since_it_has_no_resource() -> None:
    fields = make_base("e1", status="Admitted", lastTransitionTime=LATER)
    entity = PipelineRun.parse({**fields, "pipeline": "p1", "workflows": {}})
    _, claim = parse_claim(record_of(entity), resource_allocation)
    assert isinstance(claim, Claim)
    assert claim.admitted_at is None


@pytest.mark.parametrize(
    "record", [record_of(None), record_of(make_model(), forgotten="2026-01-01T00:00:00.000000Z")]
)
def test_what_is_forgotten_is_no_claim(record: Record) -> None:
    assert parse_claim(record, resource_allocation) == ("e1", ForgottenClaim((3, 42)))


def of_an_older_schema(status: str) -> Record:
    entity = make_evaluation(status=status, reason="DeleteCommand", lastTransitionTime=LATER)
    record = record_of(entity)
    return replace(record, value=orjson.dumps(orjson.loads(record.value or b"") | {"replications": 10**12}))


def test_what_an_older_schema_took_lets_go_of_what_it_holds_when_it_ends() -> None:
    record = of_an_older_schema("Deleted")
    id, claim = parse_claim(record, resource_allocation)
    assert isinstance(claim, Claim)
    assert (id, claim.kind, claim.status, claim.reason) == ("e1", "Evaluation", "Deleted", "DeleteCommand")
    assert (claim.created, claim.admitted_at, claim.terminal_at) == (START, None, LATER)
    assert (claim.json, claim.position) == (record.value, (3, 42))


def test_what_an_older_schema_took_is_not_begun() -> None:
    with pytest.raises(ValidationError, match="replications"):
        parse_claim(of_an_older_schema("Created"), resource_allocation)
