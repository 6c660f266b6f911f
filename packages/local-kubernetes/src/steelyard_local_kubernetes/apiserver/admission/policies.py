"""ValidatingAdmissionPolicies: rules in CEL on any kind, and bindings that say where they hold, with what parameters.

`admission/server.py` asks for them at each write of a client; nothing outside the server is asked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.admission.attributes import (
    EXEMPT_GROUP,
    Attributes,
    matching_kind,
    review_request,
    selectors_match,
)
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.expressions.plain import evaluate_plain
from steelyard_local_kubernetes.apiserver.expressions.program import EvaluationFailed, without_literals
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.rules.common import labels_match
from steelyard_local_kubernetes.apiserver.store import Store

POLICIES = f"validatingadmissionpolicies.{EXEMPT_GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{EXEMPT_GROUP}"
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
MAX_MESSAGE = 5 * 1024


class PolicyError(Exception):
    """A policy or, with its name, a binding that cannot be evaluated."""

    def __init__(self, text: str, binding: str = "") -> None:
        super().__init__(f"failed to configure {'binding' if binding else 'policy'}: {text}")
        self.binding = binding


@dataclass(frozen=True)
class Denial:
    """One decision against a write."""

    message: str
    reason: str = "Invalid"


@dataclass
class Evaluation:
    """Values that the expressions of one policy see, for one object of parameters."""

    values: dict[str, Any]
    variables: dict[str, str]
    known: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, expression: str) -> Any:
        """Raises Failed, worded as a real server does."""
        try:
            return evaluate_plain(
                expression, self.values | {"variables": self._evaluate_variables(expression)}
            )
        except EvaluationFailed as failure:
            text = f"expression '{expression}' resulted in error: {failure}"
            raise EvaluationFailed(text) from failure

    def _evaluate_variables(self, expression: str) -> dict[str, Any]:
        """The variables that an expression names; others are not evaluated, and may fail."""
        names = _VARIABLE.findall(without_literals(expression))
        return {name: self._variable(name) for name in names if name in self.variables}

    def _variable(self, name: str) -> Any:
        if name not in self.known:
            expression = self.variables[name]
            try:
                values = self.values | {"variables": self._evaluate_variables(expression)}
                self.known[name] = evaluate_plain(expression, values)
            except EvaluationFailed as failure:
                text = f'composited variable "{name}" fails to evaluate: {failure}'
                raise EvaluationFailed(text) from failure
        return self.known[name]


class Policies:
    """All policies of a server."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry

    def exist(self) -> bool:
        """Return whether any policy holds anywhere: nearly all servers are without, and their writes cost nothing."""
        return bool(self._store.bucket(BINDINGS).size and self._store.bucket(POLICIES).size)

    def validate(self, attributes: Attributes) -> None:
        """Raise Refusal where a policy does not allow a write."""
        if attributes.kind.group == EXEMPT_GROUP:
            return
        bindings = [item.parse() for item in self._store.bucket(BINDINGS).items()]
        for item in self._store.bucket(POLICIES).items():
            own = [binding for binding in bindings if binding["spec"].get("policyName") == item.name]
            if own:
                self._apply(item, own, attributes)

    def _apply(self, item: Item, bindings: list[Json], attributes: Attributes) -> None:
        policy = item.parse()
        kind = self._matching_version(mapping(policy["spec"], "matchConstraints"), attributes)
        if kind is None:
            return
        strict = policy["spec"].get("failurePolicy") != "Ignore"
        for binding in bindings:
            resources = mapping(binding["spec"], "matchResources")
            if resources and self._matching_version(resources, attributes) is None:
                continue
            try:
                denials = list(self._denials(policy, binding, attributes, attributes.in_version(kind)))
            except PolicyError as error:
                if strict:
                    raise _refusal(attributes, item.name, error.binding, Denial(str(error))) from error
                continue
            for denial in denials:
                self._act(item.name, binding, denial, attributes)

    def _act(self, policy: str, binding: Json, denial: Denial, attributes: Attributes) -> None:
        name, actions = binding["metadata"]["name"], sequence(binding["spec"], "validationActions")
        if "Warn" in actions:
            text = f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': "
            attributes.options.warnings.append(text + denial.message)
        if "Deny" in actions:
            raise _refusal(attributes, policy, name, denial)

    def _matching_version(self, match: Json, attributes: Attributes) -> ResourceType | None:
        """The version in which a policy sees the object; None where it does not hold for it."""
        if not selectors_match(match, attributes, self._store):
            return None
        policy, kinds = str(match.get("matchPolicy") or ""), self._registry.versions(attributes.kind.bucket)
        if matching_kind(sequence(match, "excludeResourceRules"), policy, attributes, kinds):
            return None
        rules = sequence(match, "resourceRules")
        return matching_kind(rules, policy, attributes, kinds) if rules else attributes.kind

    # ---- evaluating

    def _denials(
        self, policy: Json, binding: Json, attributes: Attributes, called: Attributes
    ) -> Iterator[Denial]:
        spec = policy["spec"]
        values = {
            "object": called.obj,
            "oldObject": called.old,
            "request": review_request(attributes, called),
            "namespaceObject": self._namespace(attributes),
        }
        variables = {variable["name"]: variable["expression"] for variable in sequence(spec, "variables")}
        for params in self._params(spec, binding, attributes):
            evaluation = Evaluation(values | {"params": params}, variables)
            yield from _decisions(spec, evaluation)

    def _namespace(self, attributes: Attributes) -> Json | None:
        if attributes.kind.bucket == "namespaces" or not attributes.namespace:
            return None
        item = self._store.get("namespaces", ("", attributes.namespace))
        return item.parse() if item is not None else None

    def _params(self, spec: Json, binding: Json, attributes: Attributes) -> list[Json | None]:
        """Raises Misconfigured."""
        param_kind, reference = spec.get("paramKind"), binding["spec"].get("paramRef")
        if not param_kind or not reference:
            return [None]
        kind = self._registry.find_kind(param_kind["apiVersion"], param_kind["kind"])
        if kind is None:
            group, _, version = param_kind["apiVersion"].rpartition("/")
            shown = f"{group}/{version}" if group else version
            text = f"failed to find resource referenced by paramKind: '{shown}, Kind={param_kind['kind']}'"
            raise PolicyError(text)
        name = binding["metadata"]["name"]
        objects = self._find_parameters(kind, name, reference, attributes.namespace)
        if not objects and reference.get("parameterNotFoundAction") == "Deny":
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise PolicyError(text, name)
        convert = kind.convert_out
        return [convert(item.parse()) if convert else item.parse() for item in objects]

    def _find_parameters(
        self, kind: ResourceType, binding: str, reference: Json, namespace: str
    ) -> list[Item]:
        named_namespace = reference.get("namespace") or ""
        if named_namespace and not kind.namespaced:
            text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise PolicyError(text, binding)
        namespace = (named_namespace or namespace) if kind.namespaced else ""
        if kind.namespaced and not namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise PolicyError(text, binding)
        if name := reference.get("name"):
            item = self._store.get(kind.bucket, (namespace, name))
            return [item] if item is not None else []
        selector = mapping(reference, "selector")
        items = self._store.bucket(kind.bucket).items(namespace)
        return [item for item in items if labels_match(selector, dict(item.labels))]


def _decisions(spec: Json, evaluation: Evaluation) -> Iterator[Denial]:
    strict = spec.get("failurePolicy") != "Ignore"
    failures: list[str] = []
    for condition in sequence(spec, "matchConditions"):
        try:
            if evaluation.evaluate(condition["expression"].strip()) is False:
                return
        except EvaluationFailed as failure:
            failures.append(str(failure))
    if failures:
        if strict:
            yield Denial(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return
    for validation in sequence(spec, "validations"):
        try:
            holds = evaluation.evaluate(validation["expression"])
        except EvaluationFailed as failure:
            if strict:
                yield Denial(str(failure))
            continue
        if holds is not True:
            yield Denial(_message(validation, evaluation), validation.get("reason") or "Invalid")
    yield from _audit_failures(spec, evaluation) if strict else ()


def _message(validation: Json, evaluation: Evaluation) -> str:
    """The message of a validation; where its expression fails, the one that always can be made."""
    text = ""
    if expression := (validation.get("messageExpression") or "").strip():
        try:
            said = evaluation.evaluate(expression)
        except EvaluationFailed:
            said = ""
        text = said.strip() if isinstance(said, str) else ""
        if "\n" in text or len(text.encode()) > MAX_MESSAGE:
            text = ""
    text = text or (validation.get("message") or "").strip()
    return text or f"failed expression: {validation['expression'].strip()}"


def _audit_failures(spec: Json, evaluation: Evaluation) -> Iterator[Denial]:
    """Annotations for an audit log, which this server does not write: an expression that fails still refuses."""
    for annotation in sequence(spec, "auditAnnotations"):
        try:
            evaluation.evaluate(annotation["valueExpression"].strip())
        except EvaluationFailed as failure:
            yield Denial(str(failure))


def _refusal(attributes: Attributes, policy: str, binding: str, denial: Denial) -> Refusal:
    by = f"'{policy}' with binding '{binding}'" if binding else f"'{policy}'"
    text = f"ValidatingAdmissionPolicy {by} denied request: {denial.message}"
    kind, metadata = attributes.kind, (attributes.obj or {}).get("metadata") or {}
    name = attributes.name or metadata.get("generateName") or "Unknown"
    refusal = errors.forbidden(kind.group, kind.plural, name, text)
    details = {**(refusal.details or {}), "causes": [{"message": text}]}
    return Refusal(_CODES.get(denial.reason, 422), denial.reason, refusal.message, details)
