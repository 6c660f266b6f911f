"""Policies hold where their bindings say so; an expression that fails refuses, unless failures are ignored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.admission.policies import Evaluation
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.expressions.program import EvaluationFailed
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

TESTER = administrator("tester")
CORE = "/api/v1/namespaces/default"
KINDS = ("configmaps", "serviceaccounts")
HOOKS = "/apis/admissionregistration.k8s.io/v1"


def test_a_variable_that_is_not_used_may_fail() -> None:
    evaluation = Evaluation(
        {"object": {"a": 1}}, {"one": "object.a + 1", "two": "variables.one * 2", "bad": "object.b"}
    )
    assert evaluation.evaluate("variables.two == 4") is True
    with pytest.raises(EvaluationFailed, match='composited variable "bad" fails to evaluate: no such key: b'):
        evaluation.evaluate("variables.bad == 1")
    # A name in a text is no variable.
    assert evaluation.evaluate("'variables.bad' != ''") is True


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    made = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    yield made
    made.store.close()


async def ask(parts: Parts, method: str, path: str, body: object = None) -> tuple[int, Json, list[str]]:
    data = orjson.dumps(body) if body is not None else b""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await parts.core.handle(Request(method, path, {}, {"content-type": kind}, data, TESTER))
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body), response.warnings


async def hold(parts: Parts, *validations: Json, actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": list(KINDS), "operations": ["*"]}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": list(validations), **spec}
    status, answer, _ = await ask(
        parts, "POST", f"{HOOKS}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": policy}
    )
    assert status == 201, answer
    binding = {"policyName": "p", "validationActions": list(actions)}
    path = f"{HOOKS}/validatingadmissionpolicybindings"
    assert (await ask(parts, "POST", path, {"metadata": {"name": "b"}, "spec": binding}))[0] == 201


def config_map(**data: str) -> Json:
    return {"metadata": {"name": "a"}, "data": data}


async def test_a_policy_refuses_and_leaves_the_object_as_it_is(parts: Parts) -> None:
    await hold(parts, {"expression": "object.data.a == '1'", "messageExpression": "'a is ' + object.data.a"})
    assert (await ask(parts, "POST", f"{CORE}/configmaps", config_map(a="1")))[0] == 201
    status, answer, _ = await ask(parts, "PATCH", f"{CORE}/configmaps/a", {"data": {"a": "2"}})
    assert (status, answer["reason"]) == (422, "Invalid")
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a is 2"
    assert answer["message"] == f'configmaps "a" is forbidden: {text}'
    assert (await ask(parts, "GET", f"{CORE}/configmaps/a"))[1]["data"] == {"a": "1"}


async def test_a_policy_may_only_warn(parts: Parts) -> None:
    await hold(parts, {"expression": "false", "message": "no"}, actions=("Warn",))
    status, _, warnings = await ask(parts, "POST", f"{CORE}/configmaps", config_map(a="1"))
    assert (status, warnings) == (
        201,
        ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"],
    )


@pytest.mark.parametrize(("policy", "status"), [("Fail", 422), ("Ignore", 201)])
async def test_an_expression_that_fails_counts_as_its_policy_says(
    parts: Parts, policy: str, status: int
) -> None:
    await hold(parts, {"expression": "object.data.nothing == '1'"}, failurePolicy=policy)
    assert (await ask(parts, "POST", f"{CORE}/configmaps", config_map(a="1")))[0] == status


async def test_the_server_itself_is_held_to_no_policy(parts: Parts) -> None:
    """A new namespace gets its ServiceAccount whatever a policy says."""
    await hold(parts, {"expression": "false"})
    assert (await ask(parts, "POST", "/api/v1/namespaces", {"metadata": {"name": "fresh"}}))[0] == 201
    while parts.store.committed != parts.store.version:
        await parts.store.wait_durable()
    assert parts.store.get("serviceaccounts", ("fresh", "default")) is not None
    account = {"metadata": {"name": "other"}}
    assert (await ask(parts, "POST", "/api/v1/namespaces/fresh/serviceaccounts", account))[0] == 422


async def test_a_policy_with_what_cannot_be_evaluated_is_refused(parts: Parts) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
    expression = "authorizer.group('').resource('pods').check('get').allowed()"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    path = f"{HOOKS}/validatingadmissionpolicies"
    status, answer, _ = await ask(parts, "POST", path, {"metadata": {"name": "p"}, "spec": spec})
    assert status == 422
    assert "this server does not evaluate `authorizer`" in answer["message"]
