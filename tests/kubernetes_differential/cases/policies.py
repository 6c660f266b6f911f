# ruff: noqa: E501 - a table is read by its rows
"""ValidatingAdmissionPolicies: who is held to what, with which parameters, and what a refusal says."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, Repeat, Request, Step, delete, merge, post
from tests.kubernetes_differential.samples import (
    APPS,
    CRDS,
    DRY,
    MAPS,
    config_map,
    definition,
    deployment,
    widget,
)

HOOKS = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{HOOKS}/validatingadmissionpolicies", f"{HOOKS}/validatingadmissionpolicybindings"
REFUSED = ("message", "reason", "details", "code", "kind")
OWN: Json = {"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}}
NOT_PROBED = "!(has(object.metadata.labels) && 'probe' in object.metadata.labels)"
SECONDS = 60.0


def rule(
    *resources: str, operations: tuple[str, ...] = ("*",), groups: tuple[str, ...] = ("",), **more: Any
) -> Json:
    return {
        "apiGroups": list(groups),
        "apiVersions": ["v1"],
        "resources": list(resources),
        "operations": list(operations),
        **more,
    }


def policy(*validations: Json, name: str = "{{ns}}", match: Json | None = None, **spec: Any) -> Json:
    constraints = {"namespaceSelector": OWN, "resourceRules": [rule("configmaps")], **(match or {})}
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, "validations": list(validations), **spec},
    }


def binding(*actions: str, name: str = "{{ns}}", **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"policyName": "{{ns}}", "validationActions": list(actions or ["Deny"]), **spec},
    }


def bound(policy_: Json, *bindings: Json, status: int = 422) -> tuple[Step, ...]:
    """A policy with its bindings, and the wait until the server acts on them: another policy refuses one object."""
    probe = policy({"expression": NOT_PROBED}, name="{{ns}}-probe")
    made = binding(name="{{ns}}-probe")
    made["spec"]["policyName"] = "{{ns}}-probe"
    refused = config_map("probe", {"a": "1"}, labels={"probe": "yes"})
    return (post(POLICIES, policy_, compare=("kind",)), *[post(BINDINGS, one, compare=("kind",)) for one in bindings or (binding(),)], post(POLICIES, probe, compare=("kind",)), post(BINDINGS, made, compare=("kind",)),
            Repeat(f"{MAPS}?{DRY}", "POST", refused, status=status, compare=("code",), seconds=SECONDS))  # fmt: skip


def gone() -> tuple[Request, ...]:
    return tuple(
        delete(f"{path}/{name}", compare=("kind",))
        for path in (BINDINGS, POLICIES)
        for name in ("{{ns}}", "{{ns}}-probe")
    )


def held(name: str, policy_: Json, *bindings: Json, steps: tuple[Step, ...] = ()) -> Case:
    steps = steps or (
        post(f"{MAPS}?{DRY}", config_map("a", {"a": "1"}), compare=REFUSED),
        post(f"{MAPS}?{DRY}", config_map("b", {"a": "1", "b": "2"}), compare=REFUSED),
    )
    return Case(f"policies: {name}", *bound(policy_, *bindings), *steps, *gone())


def invalid(name: str, **spec: Any) -> Case:
    whole = policy({"expression": "true"})
    whole["spec"] |= spec
    whole["spec"] = {key: value for key, value in whole["spec"].items() if value is not None}
    return Case(f"policies: invalid {name}", post(f"{POLICIES}?{DRY}", whole, compare=REFUSED))


def invalid_binding(name: str, **spec: Any) -> Case:
    whole = binding()
    whole["spec"] = {key: value for key, value in (whole["spec"] | spec).items() if value is not None}
    return Case(f"policies: invalid binding {name}", post(f"{BINDINGS}?{DRY}", whole, compare=REFUSED))


SMALL: Json = {"expression": "object.data.size() < 2"}
PARAMS: dict[str, Any] = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
LIMIT: Json = {
    "expression": "object.data.size() <= int(params.data.most)",
    "messageExpression": "'at most ' + params.data.most",
}
NAMED: Json = {"name": "limits", "parameterNotFoundAction": "Deny"}
LIMITS = config_map("limits", {"most": "1"}, labels={"limits": "yes"})
WRITES = rule("configmaps", operations=("CREATE", "UPDATE"))

CASES = [
    held("plain", policy(SMALL)),
    held("message", policy(SMALL | {"message": " too many ", "reason": "Forbidden"})),
    held("message expression", policy(SMALL | {"messageExpression": "'has ' + string(object.data.size()) + ' of ' + object.metadata.name", "reason": "RequestEntityTooLarge"})),
    held("message expression that fails", policy(SMALL | {"messageExpression": "object.nothing", "message": "plain"})),
    held("message of two lines", policy(SMALL | {"messageExpression": "'a\\nb'"})),
    held("warnings", policy(SMALL | {"message": "too many"}), binding("Warn", "Audit"), steps=(post(f"{MAPS}?{DRY}", config_map("b", {"a": "1", "b": "2"}), compare=("kind",)),)),
    held("error", policy({"expression": "object.data.nothing == '1'"})),
    held("error that is ignored", policy({"expression": "object.data.nothing == '1'"}, failurePolicy="Ignore")),
    held("several", policy({"expression": "true"}, SMALL, {"expression": "object.metadata.name == 'a'"})),
    held("conditions", policy({"expression": "false"}, matchConditions=[{"name": "large", "expression": "object.data.size() > 1"}])),
    held("conditions that fail", policy({"expression": "false"}, matchConditions=[{"name": "large", "expression": "object.data.b == '2'"}])),
    held("variables", policy({"expression": "variables.few && variables.count < 2"}, variables=[{"name": "count", "expression": "object.data.size()"}, {"name": "few", "expression": "variables.count < 3"}, {"name": "broken", "expression": "object.nothing.at.all"}])),
    held("variables that fail", policy({"expression": "variables.broken"}, variables=[{"name": "broken", "expression": "object.nothing.at.all"}])),
    held("request", policy({"expression": "request.operation == 'CREATE' && request.dryRun && request.resource.resource == 'configmaps' && request.name == 'a'"})),
    held("namespace", policy({"expression": "namespaceObject.metadata.name == object.metadata.namespace && size(object.data) < 2"})),
    held("names", policy({"expression": "false"}, match={"resourceRules": [rule("configmaps", resourceNames=["b"])]})),
    held("excluded", policy({"expression": "false"}, match={"excludeResourceRules": [rule("configmaps", resourceNames=["b"])]})),
    held("binding of other objects", policy({"expression": "false"}), binding(matchResources={"objectSelector": {"matchLabels": {"x": "y"}}}), steps=(post(f"{MAPS}?{DRY}", config_map("a"), compare=REFUSED), post(f"{MAPS}?{DRY}", config_map("a", labels={"x": "y"}), compare=REFUSED))),
    Case("policies: updates and deletions", post(MAPS, config_map("a", {"a": "1"}), compare=("kind",)), *bound(policy({"expression": "oldObject == null || (object != null && object.data.a == oldObject.data.a)", "message": "a stays"})),
         merge(f"{MAPS}/a", {"data": {"b": "2"}}, compare=("kind",)), merge(f"{MAPS}/a", {"data": {"a": "2"}}, compare=REFUSED), delete(f"{MAPS}/a", compare=REFUSED), delete(MAPS, compare=REFUSED), *gone()),
    Case("policies: parameters", post(MAPS, LIMITS, compare=("kind",)), *bound(policy(LIMIT, match={"resourceRules": [WRITES]}, **PARAMS), binding(paramRef=NAMED)), post(f"{MAPS}?{DRY}", config_map("a", {"a": "1"}), compare=REFUSED), post(f"{MAPS}?{DRY}", config_map("b", {"a": "1", "b": "2"}), compare=REFUSED), *gone()),
    Case("policies: parameters by label", post(MAPS, LIMITS, compare=("kind",)), *bound(policy(LIMIT, match={"resourceRules": [WRITES]}, **PARAMS), binding(paramRef={"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Allow"})), post(f"{MAPS}?{DRY}", config_map("b", {"a": "1", "b": "2"}), compare=REFUSED), *gone()),
    held("parameters that are not there", policy(LIMIT, **PARAMS), binding(paramRef=NAMED)),
    held("parameters that may be missing", policy({"expression": "false"}, **PARAMS), binding(paramRef=NAMED | {"parameterNotFoundAction": "Allow"})),
    held("no reference to parameters", policy({"expression": "params != null"}, **PARAMS)),
    held("parameters of a namespace", policy(LIMIT, **PARAMS), binding(paramRef=NAMED | {"namespace": "default"})),
    held("parameters of an unknown kind", policy({"expression": "true"}, paramKind={"apiVersion": "example.dev/v1", "kind": "Nothing"}), binding(paramRef=NAMED)),
    Case("policies: scale", post(f"{APPS}/deployments", deployment("d"), compare=("kind",)), *bound(policy({"expression": "object.spec.replicas < 3"}, match={"resourceRules": [rule("deployments/scale", groups=("apps",))]})), merge(f"{APPS}/deployments/d/scale?{DRY}", {"spec": {"replicas": 2}}, compare=("kind",)), merge(f"{APPS}/deployments/d/scale?{DRY}", {"spec": {"replicas": 5}}, compare=REFUSED), *gone()),
    Case("policies: custom objects", post(CRDS, definition(), compare=("kind",)), Repeat("/apis/{{group}}/v1/namespaces/{{ns}}/widgets?" + DRY, "POST", widget("w"), status=201, compare=("kind",)), *bound(policy({"expression": "object.spec.a == 1"}, match={"resourceRules": [{"apiGroups": ["{{group}}"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]})),
         post("/apis/{{group}}/v1/namespaces/{{ns}}/widgets", widget("w", a=1), compare=("kind",)), post("/apis/{{group}}/v1/namespaces/{{ns}}/widgets", widget("v", a=2), compare=REFUSED), *gone()),
    # ---- what cannot be stored
    invalid("constraints", matchConstraints=None),
    invalid("no rules", matchConstraints={}),
    invalid("rules", matchConstraints={"matchPolicy": "Nearly", "resourceRules": [{"operations": [], "apiGroups": [], "apiVersions": [], "resources": [], "resourceNames": ["a", "a"]}]}),
    invalid("policy", failurePolicy="Perhaps"),
    invalid("no validations", validations=None),
    invalid("validation", validations=[{"expression": " ", "message": " ", "messageExpression": " ", "reason": "Gone"}]),
    invalid("message", validations=[{"expression": "true", "message": "a\nb"}]),
    invalid("unknown variable", validations=[{"expression": "nothing.x"}]),
    invalid("parameters without a kind", validations=[{"expression": "params.x == 1"}]),
    invalid("type", validations=[{"expression": "1 + 1"}]),
    invalid("message type", validations=[{"expression": "true", "messageExpression": "1 + 1"}]),
    invalid("variables", variables=[{"name": "", "expression": ""}, {"name": "a-b", "expression": "true"}]),
    invalid("parameter kind", paramKind={}),
    invalid("annotations", auditAnnotations=[{"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": ""}]),
    invalid("conditions", matchConditions=[{"name": "a", "expression": "params.x"}]),
    invalid_binding("without a policy", policyName=None),
    invalid_binding("actions", validationActions=["Deny", "Warn", "Deny", "Shout"]),
    invalid_binding("no actions", validationActions=None),
    invalid_binding("parameters", paramRef={}),
    invalid_binding("two references", paramRef={"name": "a", "selector": {}, "parameterNotFoundAction": "Perhaps"}),
    Case("policies: defaults", post(f"{POLICIES}?{DRY}", policy({"expression": "true"}), compare=("spec", "metadata.generation")), post(f"{BINDINGS}?{DRY}", binding(matchResources={"resourceRules": [rule("pods")]}), compare=("spec", "metadata.generation"))),
]  # fmt: skip
