# ruff: noqa: E501 - a table is read by its rows
"""Deletions: where their options stand, and what they do to one object and to many."""

from tests.kubernetes_differential.case import Case, Until, delete, get, merge, post
from tests.kubernetes_differential.samples import LABELS, MAPS, PODS, config_map, pod

KIND = ("kind", "message", "reason", "metadata.finalizers", "metadata.deletionGracePeriodSeconds")
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
BUDGETS = "/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets"
READY = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
}

CASES = [
    Case("deletions: a dry run in the body", post(MAPS, config_map("a")), delete(f"{MAPS}/a", {"dryRun": ["All"]}, compare=KIND), get(f"{MAPS}/a", compare=KIND),
         delete(MAPS, {"dryRun": ["All"]}, compare=("kind",)), get(f"{MAPS}/a", compare=KIND), delete(f"{MAPS}/a", {"dryRun": ["foo"]}), get(f"{MAPS}/a", compare=KIND)),
    Case("deletions: a query beside a body", post(MAPS, config_map("a")), delete(f"{MAPS}/a?propagationPolicy=foo&dryRun=All", {"apiVersion": "v1", "kind": "DeleteOptions"}, compare=KIND), get(f"{MAPS}/a", compare=KIND)),
    Case("deletions: orphanDependents", post(MAPS, config_map("a", finalizers=["a.b/c"])), delete(f"{MAPS}/a?orphanDependents=true", compare=KIND), Until(f"{MAPS}/a", {"metadata.finalizers.1": None}, compare=KIND),
         post(MAPS, config_map("b", finalizers=["a.b/c"])), delete(f"{MAPS}/b", {"orphanDependents": False}, compare=KIND), delete(f"{MAPS}/b?propagationPolicy=Foreground", compare=KIND), delete(f"{MAPS}/b?propagationPolicy=Orphan&orphanDependents=true")),
    Case("deletions: grace", post(PODS, pod("p")), delete(f"{PODS}/p?gracePeriodSeconds=-5", compare=KIND), get(f"{PODS}/p", compare=KIND), post(PODS, pod("q", nodeName="absent")), delete(f"{PODS}/q", {"gracePeriodSeconds": 50}, compare=KIND), delete(f"{PODS}/q?gracePeriodSeconds=60", compare=KIND),
         delete(f"{PODS}/q?gracePeriodSeconds=20", compare=KIND), delete(f"{PODS}/q", compare=KIND), delete(f"{PODS}/q?dryRun=All&gracePeriodSeconds=0", compare=KIND), get(f"{PODS}/q", compare=KIND), delete(f"{PODS}/q?gracePeriodSeconds=0", compare=KIND), get(f"{PODS}/q", compare=KIND)),
    Case("deletions: evictions without effect", post(PODS, pod("p"), compare=("kind",)), post(f"{PODS}/p/eviction?dryRun=All", EVICTION), get(f"{PODS}/p", compare=KIND), post(f"{PODS}/p/eviction", EVICTION | {"deleteOptions": {"dryRun": ["All"]}}), get(f"{PODS}/p", compare=KIND), post(f"{PODS}/p/eviction", EVICTION | {"deleteOptions": {"gracePeriodSeconds": 0}}), get(f"{PODS}/p", compare=KIND)),
    Case("deletions: evictions within a budget", post(PODS, pod("p", nodeName="absent"), compare=("kind",)), merge(f"{PODS}/p/status", READY, compare=("kind",)), post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}}, compare=("spec",)),
         Until(f"{BUDGETS}/b", {"status.currentHealthy": 1}, compare=("status.disruptionsAllowed", "status.desiredHealthy", "status.expectedPods", "status.observedGeneration")), post(f"{PODS}/p/eviction", EVICTION), get(f"{PODS}/p", compare=KIND), merge(f"{BUDGETS}/b", {"spec": {"minAvailable": 0}}, compare=("spec",)),
         Until(f"{BUDGETS}/b", {"status.disruptionsAllowed": 1}, compare=("status.desiredHealthy", "status.observedGeneration")), post(f"{PODS}/p/eviction", EVICTION), get(f"{PODS}/p", compare=(*KIND, "status.conditions.0.type", "status.conditions.1.type", "status.conditions.1.reason"))),
    Case("deletions: many", *[post(PODS, pod(name)) for name in "ab"], delete(f"{PODS}?gracePeriodSeconds=0", compare=("kind", "items.0.kind", "items.0.metadata.name", "items.0.metadata.deletionGracePeriodSeconds")), get(PODS, compare=("items.0.metadata.name",)), delete(f"{PODS}?propagationPolicy=foo"), delete(f"{PODS}?labelSelector=a b")),
]  # fmt: skip
