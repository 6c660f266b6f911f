"""Answers to errors that no handler has caught: whose fault it is decides whether a client repeats the request."""

import orjson
import pytest

from steelyard.api.http.app import answer_to
from steelyard.broker.log import BadMessage, LogError
from steelyard.sqlite.file import StatementError
from steelyard_common.errors import is_engine_failure
from steelyard_evaluation.storage.store import BadLocation, ObjectMissing, StorageError

ANSWERS: dict[type[Exception], tuple[int, str]] = {
    BadLocation: (400, "BadRequest"),
    ObjectMissing: (404, "NotFound"),
    BadMessage: (500, "Internal"),
    StatementError: (500, "Internal"),
    LogError: (503, "Unavailable"),
    StorageError: (503, "Unavailable"),
}


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_only_what_an_engine_failed_at_may_be_asked_again(kind: type[Exception]) -> None:
    error = kind("x/../y: is no key")
    response = answer_to(error, "/v0/datasets")
    body = orjson.loads(response.body)
    assert (response.status_code, body["reason"]) == ANSWERS[kind]
    assert "x/../y: is no key" in body["detail"]
    assert ("retry-after" in response.headers) == is_engine_failure(error)
