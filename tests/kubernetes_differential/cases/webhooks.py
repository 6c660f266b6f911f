# ruff: noqa: E501 - a table is read by its rows
"""Admission webhooks: who is asked about what, and what their answers do."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import (
    Case,
    Repeat,
    Request,
    Step,
    apply,
    delete,
    get,
    merge,
    post,
    put,
)
from tests.kubernetes_differential.samples import (
    APPS,
    CORE,
    CRDS,
    DRY,
    MAPS,
    PODS,
    WIDGETS,
    config_map,
    definition,
    deployment,
    pod,
    widget,
)

HOOKS = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = f"{HOOKS}/validatingwebhookconfigurations", f"{HOOKS}/mutatingwebhookconfigurations"
REFUSED = ("message", "reason", "details", "code", "kind")
MADE = (*REFUSED, "data", "metadata.labels", "metadata.annotations")
OWN: Json = {"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}}
REAL: Json = {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]}
PROBED: Json = {"matchLabels": {"probe": "yes"}}


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


def hook(path: str, *rules: Json, **more: Any) -> Json:
    """A webhook of the case's own namespace."""
    config = {"url": "{{hooks}}/" + path, "caBundle": "{{bundle}}"}
    return {
        "name": f"{path}.example.dev",
        "clientConfig": config,
        "rules": list(rules or [rule("configmaps")]),
        "namespaceSelector": OWN,
        "objectSelector": REAL,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(*hooks: Json) -> Json:
    return {"metadata": {"name": "{{ns}}"}, "webhooks": list(hooks)}


def hooked(path: str, *hooks: Json) -> tuple[Step, ...]:
    """A configuration, and the wait until the server acts on it: a webhook of it refuses one object."""
    probe = hook(
        "deny", rule("configmaps", operations=("CREATE",)), name="probe.example.dev", objectSelector=PROBED
    )
    refused = config_map("probe", labels={"probe": "yes"})
    return (
        post(path, configuration(*hooks, probe), compare=("kind",)),
        Repeat(f"{MAPS}?{DRY}", "POST", refused, status=400, compare=REFUSED),
    )


def gone(path: str) -> Request:
    return delete(f"{path}/{{{{ns}}}}", compare=("kind", "status"))


def validated(name: str, *hooks: Json, steps: tuple[Step, ...] = ()) -> Case:
    steps = steps or (post(MAPS, config_map("a", {"a": "1"}), compare=MADE),)
    return Case(f"webhooks: {name}", *hooked(VALIDATING, *hooks), *steps, gone(VALIDATING))


def mutated(name: str, *hooks: Json, steps: tuple[Step, ...] = ()) -> Case:
    steps = steps or (post(MAPS, config_map("a", {"a": "1"}), compare=MADE), get(f"{MAPS}/a", compare=MADE))
    return Case(f"webhooks: {name}", *hooked(MUTATING, *hooks), *steps, gone(MUTATING))


def refused(name: str, more: Json, path: str = VALIDATING) -> Case:
    """A configuration with one field that is wrong; None removes it."""
    one = {key: value for key, value in (hook("allow") | more).items() if value is not None}
    return Case(f"webhooks: invalid {name}", post(f"{path}?{DRY}", configuration(one), compare=REFUSED))


def conditions(*expressions: str) -> list[Json]:
    return [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]


INVALID: dict[str, Json] = {
    "name": {"name": "short"},
    "no name": {"name": None},
    "side effects": {"sideEffects": "Some"},
    "no side effects": {"sideEffects": None},
    "versions": {"admissionReviewVersions": []},
    "no versions": {"admissionReviewVersions": None},
    "unknown versions": {"admissionReviewVersions": ["v2"]},
    "double versions": {"admissionReviewVersions": ["v1", "v1"]},
    "timeout": {"timeoutSeconds": 31},
    "no timeout": {"timeoutSeconds": 0},
    "policy": {"failurePolicy": "Perhaps"},
    "match policy": {"matchPolicy": "Nearly"},
    "no client": {"clientConfig": {}},
    "two clients": {"clientConfig": {"url": "https://a.b", "service": {"namespace": "a", "name": "b"}}},
    "url without tls": {"clientConfig": {"url": "http://a.b"}},
    "url with user": {"clientConfig": {"url": "https://me@a.b/?q=1#f"}},
    "url": {"clientConfig": {"url": ":"}},
    "service": {"clientConfig": {"service": {"namespace": "", "name": "", "path": "a//b", "port": 0}}},
    "service path": {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/a//b", "port": 70000}}},
    "rule": {"rules": [{"operations": [], "apiGroups": [], "apiVersions": [], "resources": []}]},
    "rule wildcards": {"rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*", "a"], "apiVersions": ["*", "v1"], "resources": ["*", "pods"]}]},
    "rule values": {"rules": [{"operations": ["GET"], "apiGroups": [""], "apiVersions": [""], "resources": ["", "pods/*", "pods/status", "*/*"], "scope": "Some"}]},
    "selector": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    "condition": {"matchConditions": [{"name": "", "expression": ""}, {"name": "a b", "expression": "1 +"}]},
    "condition type": {"matchConditions": conditions("'text'")},
    "condition names": {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "params.x"}]},
    "bundle": {"clientConfig": {"url": "https://a.b", "caBundle": "eA=="}},
}  # fmt: skip
EVICTION: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
BINDING: Json = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
LARGE = "object.data.size() > 1"
POD_RULE = rule("pods", operations=("CREATE",))

CASES = [
    *[refused(name, more) for name, more in INVALID.items()],
    refused("reinvocation", {"reinvocationPolicy": "Always"}, MUTATING),
    Case("webhooks: two of one name", post(f"{VALIDATING}?{DRY}", configuration(hook("allow"), hook("allow")), compare=REFUSED)),
    Case("webhooks: defaults", post(f"{VALIDATING}?{DRY}", configuration(hook("allow")), compare=("webhooks.0.rules", "webhooks.0.failurePolicy", "webhooks.0.matchPolicy", "webhooks.0.timeoutSeconds", "metadata.generation")),
         post(f"{MUTATING}?{DRY}", configuration(hook("allow", clientConfig={"service": {"namespace": "a", "name": "b"}})), compare=("webhooks.0.reinvocationPolicy", "webhooks.0.clientConfig"))),
    *[validated(f"answer {path}", hook(path)) for path in ("allow", "deny", "deny-reason", "deny-status", "deny-success", "warn", "patch-alone", "500", "404", "400", "503", "garbage", "empty", "no-response", "other-kind", "uid")],
    *[mutated(f"change {path}", hook(path)) for path in ("label", "data", "none", "missing", "unknown", "wrong-type", "status", "patch-alone", "type-alone", "other-type", "deny-status", "500")],
    *[validated(f"ignored {path}", hook(path, failurePolicy="Ignore")) for path in ("500", "uid", "deny")],
    validated("late", hook("hang", timeoutSeconds=1)),
    validated("late and ignored", hook("hang", timeoutSeconds=1, failurePolicy="Ignore")),
    validated("not there", hook("gone", clientConfig={"url": "https://127.0.0.1:1/gone", "caBundle": "{{bundle}}"})),
    validated("unknown authority", hook("tls", clientConfig={"url": "{{hooks}}/tls"})),
    validated("no such service", hook("service", clientConfig={"service": {"namespace": "{{ns}}", "name": "s", "path": "/p"}, "caBundle": "{{bundle}}"})),
    validated("shown", hook("show", rule("configmaps", "pods")), steps=(post(f"{MAPS}?fieldManager=me&fieldValidation=Warn", config_map("a", {"a": "1"}), compare=REFUSED), post(f"{PODS}?{DRY}", pod("p"), compare=("reason",)),
              apply(f"{MAPS}/b", config_map("b"), compare=("reason",)))),
    mutated("shown before changes", hook("show"), steps=(post(MAPS, config_map("a", {"a": "1"}), compare=REFUSED), post(MAPS, {"metadata": {"generateName": "g-"}}, compare=REFUSED))),
    Case("webhooks: shown updates", post(MAPS, config_map("a", {"a": "1"}), compare=("kind",)), *hooked(VALIDATING, hook("show")), merge(f"{MAPS}/a", {"data": {"b": "2"}}, compare=REFUSED), put(f"{MAPS}/a", config_map("a", {"c": "3"}), compare=REFUSED), delete(f"{MAPS}/a", compare=REFUSED),
         delete(f"{MAPS}/a", {"propagationPolicy": "Background", "gracePeriodSeconds": 0}, compare=REFUSED), gone(VALIDATING)),
    Case("webhooks: shown scale and status", post(f"{APPS}/deployments", deployment("d"), compare=("kind",)), *hooked(VALIDATING, hook("show", rule("deployments/scale", groups=("apps",))), hook("deny", rule("deployments/status", groups=("apps",)))),
         merge(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 3}}, compare=REFUSED), merge(f"{APPS}/deployments/d/status", {"status": {"replicas": 3}}, compare=REFUSED), merge(f"{APPS}/deployments/d", {"metadata": {"labels": {"a": "b"}}}, compare=("kind",)), gone(VALIDATING)),
    Case("webhooks: shown custom objects", post(CRDS, definition(), compare=("kind",)), Repeat(f"{WIDGETS}?{DRY}", "POST", widget("w"), status=201, compare=("kind",)), *hooked(VALIDATING, hook("show", {"apiGroups": ["{{group}}"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]})), post(WIDGETS, widget("w", a=1), compare=REFUSED), gone(VALIDATING)),
    validated("rules", hook("deny", rule("configmaps", operations=("UPDATE", "DELETE"))), hook("deny-reason", rule("secrets", "*/status")), steps=(post(MAPS, config_map("a"), compare=("kind",)), merge(f"{MAPS}/a", {"data": {"a": "1"}}, compare=REFUSED), delete(f"{MAPS}/a", compare=REFUSED), delete(MAPS, compare=REFUSED))),
    validated("scope", hook("deny", rule("*", scope="Cluster")), hook("deny-reason", rule("configmaps", scope="Namespaced")), steps=(post(MAPS, config_map("a"), compare=REFUSED),)),
    validated("object selector", hook("deny", objectSelector={"matchLabels": {"x": "y"}}), steps=(post(MAPS, config_map("a"), compare=("kind",)), post(MAPS, config_map("b", labels={"x": "y"}), compare=REFUSED), merge(f"{MAPS}/a", {"metadata": {"labels": {"x": "y"}}}, compare=REFUSED))),
    validated("conditions", hook("deny", matchConditions=conditions("request.operation == 'CREATE'", LARGE)), steps=(post(MAPS, config_map("a", {"a": "1"}), compare=("kind",)), post(MAPS, config_map("b", {"a": "1", "b": "2"}), compare=REFUSED), post(MAPS, config_map("c"), compare=REFUSED))),
    validated("conditions that fail and are ignored", hook("deny", matchConditions=conditions(LARGE), failurePolicy="Ignore"), steps=(post(MAPS, config_map("c"), compare=("kind",)),)),
    validated("conditions of all kinds", hook("deny", matchConditions=conditions("!has(oldObject.metadata)", "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'", "request.namespace == object.metadata.namespace", "request.name == 'a'", "object.metadata.name.startsWith('a')", "!('system:nodes' in request.userInfo.groups)"))),
    mutated("seen again", hook("seen", reinvocationPolicy="IfNeeded"), hook("data")),
    mutated("seen once", hook("seen"), hook("data")),
    mutated("in turn", hook("label"), hook("seen", objectSelector={"matchLabels": {"hooked": "yes"}})),
    mutated("containers", hook("container", POD_RULE), steps=(post(PODS, pod("p"), compare=("spec.containers.1.imagePullPolicy", "spec.containers.1.name", *REFUSED)),)),
    mutated("dry run", hook("label", sideEffects="NoneOnDryRun"), steps=(post(f"{MAPS}?{DRY}", config_map("a"), compare=MADE), get(f"{MAPS}/a", compare=("reason",)))),
    Case("webhooks: shown bindings and evictions", post(PODS, pod("p"), compare=("kind",)), *hooked(VALIDATING, hook("show", rule("pods/binding", "pods/eviction", "serviceaccounts/token"))), post(f"{PODS}/p/binding", {"target": {"name": "n"}}, compare=REFUSED), post(f"{PODS}/p/binding", BINDING, compare=REFUSED), post(f"{PODS}/p/eviction?{DRY}", EVICTION, compare=REFUSED), post(f"{PODS}/p/eviction", EVICTION | {"metadata": {"name": "p", "labels": {"a": "b"}}, "deleteOptions": {"gracePeriodSeconds": 3}}, compare=REFUSED),
         post(f"{CORE}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 900}}, compare=REFUSED), get(f"{PODS}/p", compare=("spec.nodeName", "metadata.deletionTimestamp")), gone(VALIDATING)),
    Case("webhooks: parts by a wildcard", post(PODS, pod("p"), compare=("kind",)), *hooked(VALIDATING, hook("deny", rule("pods/*", operations=("CREATE",)))), post(f"{PODS}/p/binding", BINDING, compare=REFUSED), post(f"{PODS}/p/eviction", EVICTION, compare=REFUSED), post(f"{PODS}/absent/eviction", EVICTION | {"metadata": {"name": "absent"}}, compare=REFUSED), post(PODS, pod("q"), compare=("kind",)), gone(VALIDATING)),
    Case("webhooks: changed evictions", post(PODS, pod("p"), compare=("kind",)), *hooked(MUTATING, hook("show", rule("pods/eviction"))), post(f"{PODS}/p/eviction", EVICTION, compare=REFUSED), post(f"{PODS}/absent/eviction", EVICTION | {"metadata": {"name": "absent"}}, compare=REFUSED), gone(MUTATING)),
    validated("name that is taken", hook("deny", objectSelector={"matchLabels": {"x": "y"}}), steps=(post(MAPS, config_map("a"), compare=("kind",)), post(MAPS, config_map("a", labels={"x": "y"}), compare=REFUSED), post(MAPS, config_map("A_", labels={"x": "y"}), compare=REFUSED))),
]  # fmt: skip
