"""Admission webhooks and policies, as they are stored."""

from collections.abc import Iterable

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.rules import policies, webhooks
from steelyard_local_kubernetes.apiserver.rules.common import defaults


def _default_rules(rules: Iterable[Json]) -> None:
    for rule in rules:
        defaults(rule, scope="*")


def _default_webhooks(obj: Json) -> None:
    for webhook in sequence(obj, "webhooks"):
        defaults(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        if service := mapping(mapping(webhook, "clientConfig"), "service"):
            defaults(service, port=443)
        _default_rules(sequence(webhook, "rules"))


def _default_mutating(obj: Json) -> None:
    _default_webhooks(obj)
    for webhook in sequence(obj, "webhooks"):
        defaults(webhook, reinvocationPolicy="Never")


def _default_match(match: Json) -> None:
    defaults(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    _default_rules([*sequence(match, "resourceRules"), *sequence(match, "excludeResourceRules")])


def _prepare_policy(obj: Json) -> None:
    obj["status"] = {}


def _default_policy(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, failurePolicy="Fail")
    if isinstance(match := spec.get("matchConstraints"), dict):
        _default_match(match)


def _default_binding(obj: Json) -> None:
    if isinstance(match := obj.setdefault("spec", {}).get("matchResources"), dict):
        _default_match(match)


VALIDATING = Rules(default=_default_webhooks, check=webhooks.check)
MUTATING = Rules(default=_default_mutating, check=webhooks.check)
POLICY = Rules(prepare=_prepare_policy, default=_default_policy, check=policies.check)
POLICY_BINDING = Rules(default=_default_binding, check=policies.check_binding)
