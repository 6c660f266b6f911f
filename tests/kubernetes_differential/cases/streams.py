# ruff: noqa: E501 - a table is read by its rows
"""Streams of watches beside more kinds of writes: every event, in order, as a client of that kind sees it."""

from tests.kubernetes_differential.case import (
    TABLE,
    Case,
    Events,
    Until,
    Watch,
    apply,
    delete,
    get,
    json_patch,
    merge,
    post,
    put,
    strategic,
)
from tests.kubernetes_differential.samples import (
    BATCH,
    CORE,
    CRDS,
    MAPS,
    PODS,
    WIDGETS,
    config_map,
    definition,
    job,
    owned_by,
    pod,
    service,
    widget,
)

SEEN = ("type", "object.kind", "object.metadata.name", "object.metadata.labels", "object.metadata.generation", "object.metadata.finalizers", "object.metadata.deletionGracePeriodSeconds", "object.spec", "object.data", "object.status", "object.message", "object.code", "object.reason")  # fmt: skip
SHORT = ("type", "object.kind", "object.metadata.name")
NAMED = "&fieldSelector=metadata.name!=kube-root-ca.crt"


def since(step: str) -> str:
    return f"watch=1&resourceVersion={{{{{step}:metadata.resourceVersion}}}}"


FROM = since("0")
CASES = [
    Case("streams: a Pod's life", get(PODS), Watch("w", f"{PODS}?{FROM}"), post(PODS, pod("p", nodeName="absent")), merge(f"{PODS}/p/status", {"status": {"phase": "Running"}}), strategic(f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}), delete(f"{PODS}/p"), delete(f"{PODS}/p?gracePeriodSeconds=0"), Events("w", 5, compare=("type", "object.metadata.labels", "object.metadata.generation", "object.metadata.deletionGracePeriodSeconds", "object.status.phase"))),
    Case("streams: a Pod without a node", get(PODS), Watch("w", f"{PODS}?{FROM}"), post(PODS, pod("p")), delete(f"{PODS}/p"), Events("w", 2, compare=("type", "object.metadata.generation", "object.metadata.deletionGracePeriodSeconds", "object.metadata.deletionTimestamp"))),
    Case("streams: Pods by phase", get(PODS), Watch("w", f"{PODS}?{FROM}&fieldSelector=status.phase=Running"), post(PODS, pod("p")), merge(f"{PODS}/p/status", {"status": {"phase": "Running"}}), merge(f"{PODS}/p/status", {"status": {"message": "x"}}), merge(f"{PODS}/p/status", {"status": {"phase": "Failed"}}), Events("w", 3, compare=("type", "object.status.phase", "object.status.message"))),
    Case("streams: a collection deleted", *[post(MAPS, config_map(name, labels={"of": "it"})) for name in "abc"], get(MAPS, name="all"), Watch("w", f"{MAPS}?{since('all')}{NAMED}"), delete(f"{MAPS}?labelSelector=of=it"), Events("w", 3, compare=SHORT)),
    Case("streams: every kind of write", get(MAPS, name="all"), Watch("w", f"{MAPS}?{since('all')}{NAMED}"), post(MAPS, config_map("a", {"x": "1"})), put(f"{MAPS}/a", config_map("a", {"x": "2"})), merge(f"{MAPS}/a", {"data": {"x": "3"}}), json_patch(f"{MAPS}/a", {"op": "replace", "path": "/data/x", "value": "4"}), strategic(f"{MAPS}/a", {"data": {"x": "5"}}), apply(f"{MAPS}/a", config_map("a", {"x": "6"}), force=True),
         post(f"{MAPS}?dryRun=All", config_map("b")), put(f"{MAPS}/a", config_map("a", {"x": "6"})), delete(f"{MAPS}/a"), Events("w", 7, compare=SEEN)),
    Case("streams: a custom object", post(CRDS, definition(), compare=("kind",)), Until(WIDGETS, name="all", compare=("kind",)), Watch("w", f"{WIDGETS}?{since('all')}"), post(WIDGETS, widget("w", a=1)), merge(f"{WIDGETS}/w", {"spec": {"a": 2}}), merge(f"{WIDGETS}/w", {"metadata": {"labels": {"x": "y"}}}), merge(f"{WIDGETS}/w/status", {"status": {"b": 1}}), merge(f"{WIDGETS}/w/status", {"status": {"b": 1}}), delete(f"{WIDGETS}/w"), Events("w", 5, compare=SEEN)),
    Case("streams: dependents", get(MAPS, name="all"), Watch("w", f"{MAPS}?{since('all')}{NAMED}"), post(MAPS, config_map("owner"), name="owner"), post(MAPS, config_map("child", ownerReferences=owned_by("owner", blockOwnerDeletion=True))), delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"}), Events("w", 5, compare=("type", "object.metadata.name", "object.metadata.finalizers"))),
    Case("streams: orphans", get(MAPS, name="all"), Watch("w", f"{MAPS}?{since('all')}{NAMED}"), post(MAPS, config_map("owner"), name="owner"), post(MAPS, config_map("child", ownerReferences=owned_by("owner"))), delete(f"{MAPS}/owner", {"propagationPolicy": "Orphan"}), Events("w", 5, compare=("type", "object.metadata.name", "object.metadata.finalizers", "object.metadata.ownerReferences.0.name"))),
    Case("streams: a Service", get(f"{CORE}/services", name="all"), Watch("w", f"{CORE}/services?{since('all')}"), post(f"{CORE}/services", service("s")), merge(f"{CORE}/services/s", {"spec": {"selector": {"a": "b"}}}), delete(f"{CORE}/services/s"), Events("w", 3, compare=("type", "object.spec.selector", "object.spec.ports"))),
    Case("streams: a Job that waits", get(f"{BATCH}/jobs", name="all"), Watch("w", f"{BATCH}/jobs?{since('all')}"), post(f"{BATCH}/jobs", job("j")), Events("w", 2, compare=("type", "object.metadata.generation", "object.spec.suspend", "object.status.conditions.0.type", "object.status.conditions.0.reason"))),
    Case("streams: Secrets by type", get(f"{CORE}/secrets", name="all"), Watch("w", f"{CORE}/secrets?{since('all')}&fieldSelector=type=a.b/c"), post(f"{CORE}/secrets", {"metadata": {"name": "x"}}), post(f"{CORE}/secrets", {"metadata": {"name": "s"}, "type": "a.b/c"}), delete(f"{CORE}/secrets/s"), Events("w", 2, compare=SHORT)),
    Case("streams: resumed", post(MAPS, config_map("a", labels={"on": "yes"})), Watch("w", f"{MAPS}?{FROM}{NAMED}"), merge(f"{MAPS}/a", {"data": {"x": "1"}}, name="middle"), Events("w", 1, compare=SEEN), merge(f"{MAPS}/a", {"data": {"x": "2"}}), delete(f"{MAPS}/a"), Watch("v", f"{MAPS}?{since('middle')}{NAMED}"), Events("v", 2, compare=SEEN)),
    Case("streams: tables of Pods", get(PODS, name="all"), Watch("w", f"{PODS}?{since('all')}", accept=TABLE), post(PODS, pod("p")), merge(f"{PODS}/p/status", {"status": {"phase": "Running"}}), delete(f"{PODS}/p"), Events("w", 3, compare=("type", "object.kind", "object.rows.0.cells.0", "object.rows.0.cells.2", "object.columnDefinitions.0.name", "object.columnDefinitions.2.name"))),
    Case("streams: a definition that goes", post(CRDS, definition(), compare=("kind",)), Until(WIDGETS, name="all", compare=("kind",)), post(WIDGETS, widget("w")), Watch("w", f"{WIDGETS}?{since('all')}"), delete(f"{CRDS}/widgets.{{{{group}}}}", compare=("kind",)), Events("w", 2, compare=SHORT)),
    Case("streams: a namespace that goes", post("/api/v1/namespaces", {"metadata": {"name": "{{ns}}-s"}}, name="made"), post("/api/v1/namespaces/{{ns}}-s/secrets", {"metadata": {"name": "a"}}, compare=("kind",)), Watch("w", f"/api/v1/namespaces/{{{{ns}}}}-s/secrets?{since('made')}"), delete("/api/v1/namespaces/{{ns}}-s", compare=("kind",)), Events("w", 2, compare=SHORT), Until("/api/v1/namespaces/{{ns}}-s", status=404)),
]  # fmt: skip
