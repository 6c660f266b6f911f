"""Options of a deletion, in the body and in the query."""

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.deletions import deletion_options
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Deletion


def request(body: Json | None = None, **query: str) -> Request:
    raw = orjson.dumps(body) if body is not None else b""
    return Request("DELETE", "/", query, {"content-type": "application/json"}, raw, administrator("a"))


@pytest.mark.parametrize(
    ("sent", "wanted", "dry_run"),
    [
        (request(), Deletion(), False),
        (request(gracePeriodSeconds="0"), Deletion(grace=0), False),
        (request(propagationPolicy="Orphan"), Deletion(propagation="Orphan"), False),
        (request(dryRun="All"), Deletion(), True),
        (request({"dryRun": ["All"]}), Deletion(), True),
        (request({"orphanDependents": False}), Deletion(propagation="Background", cascades=True), False),
        (request({"preconditions": {"uid": "u"}}), Deletion(uid="u"), False),
        (request({"gracePeriodSeconds": 5}, gracePeriodSeconds="0", dryRun="All"), Deletion(grace=5), False),
    ],
    ids=[
        "nothing",
        "grace in the query",
        "policy in the query",
        "dry run in the query",
        "dry run in the body",
        "the old field",
        "preconditions",
        "a body, beside which no query counts",
    ],
)
def test_what_is_wanted(sent: Request, wanted: Deletion, dry_run: bool) -> None:
    deletion, options = deletion_options(sent)
    assert (deletion, options.dry_run) == (wanted, dry_run)


@pytest.mark.parametrize(
    ("sent", "code", "fault"),
    [
        (
            request(propagationPolicy="x"),
            422,
            'supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        (request({"propagationPolicy": "Orphan", "orphanDependents": True}), 422, "cannot be both set"),
        (request({"dryRun": ["All", "x"]}), 422, 'Unsupported value: ["All","x"]'),
        (request(gracePeriodSeconds="x"), 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ],
    ids=["an unknown policy", "both fields", "an unknown dry run", "no number"],
)
def test_what_is_refused(sent: Request, code: int, fault: str) -> None:
    with pytest.raises(Refusal) as refusal:
        deletion_options(sent)
    assert (refusal.value.code, fault in refusal.value.message) == (code, True)
