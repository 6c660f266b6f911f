# ruff: noqa: E501 - a table is read by its rows
"""Lists: pages, versions, selectors, tables."""

from tests.kubernetes_differential.case import TABLE, Case, delete, get, merge, post
from tests.kubernetes_differential.samples import (
    CORE,
    MAPS,
    PODS,
    config_map,
    pod,
)

NAMES = ("items.0.metadata.name", "items.1.metadata.name", "items.2.metadata.name", "items.3.metadata.name")
PAGE = (
    *NAMES,
    "metadata.remainingItemCount",
    "metadata.continue",
    "kind",
    "apiVersion",
    "message",
    "reason",
    "code",
    "details",
)
OURS = "labelSelector=case=here"


MADE = tuple(
    post(MAPS, config_map(name, {"v": "1"}, labels={"case": "here", "name": name})) for name in "abcde"
)
LABELS = (
    "name=a", "name==a", "name!=a", "!name", "name", "name in (a,b)", "name notin (a,b)", "name in ()", "name>1", "name<1", "n>1",
    "rank>1", "rank<3", "rank>x", "rank > 1, rank < 4", "name=", "name=a,", ",name=a", "name=a b", "a b=c", "name in (a", "name~a", "=a", "name===a",
)  # fmt: skip
FIELDS = (
    "metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=a,", "metadata.namespace={{ns}}", "metadata.namespace!={{ns}}",
    "data.v=1", "metadata.name>a", "metadata.name", "metadata.name=a,metadata.name=b", "metadata.uid=x", ",", "=",
)  # fmt: skip
POD_FIELDS = (
    "status.phase=Pending", "status.phase!=Running", "spec.nodeName=", "spec.nodeName=x", "spec.restartPolicy=Always", "spec.restartPolicy=Never",
    "spec.schedulerName=default-scheduler", "spec.serviceAccountName=default", "spec.hostNetwork=false", "status.podIP=", "status.nominatedNodeName=",
    "spec.foo=x", "status.podIPs=x", "metadata.labels=x", "spec.containers=x",
)  # fmt: skip

CASES = [
    Case("lists: pages", *MADE, get(f"{MAPS}?{OURS}&limit=2", name="first", compare=PAGE),
         get(MAPS + "?" + OURS + "&limit=2&continue={{first:metadata.continue}}", name="second", compare=PAGE),
         get(MAPS + "?" + OURS + "&limit=2&continue={{second:metadata.continue}}", compare=PAGE),
         get(f"{MAPS}?limit=1", compare=("metadata.continue", "kind")), get(f"{MAPS}?limit=x", compare=PAGE), get(f"{MAPS}?limit=-1", compare=("kind", "message"))),
    Case("lists: later pages are of the first one's moment", *MADE, get(f"{MAPS}?limit=2", name="first", compare=PAGE),
         post(MAPS, config_map("cc")), delete(f"{MAPS}/d"), merge(f"{MAPS}/e", {"data": {"v": "2"}}),
         get(MAPS + "?limit=9&continue={{first:metadata.continue}}", compare=(*PAGE, "items.1.data.v", "items.2.data.v"))),
    Case("lists: tokens", get(f"{MAPS}?limit=1&continue=x"), get(f"{MAPS}?limit=1&continue=eyJ2IjoiZm9vIn0"), get(f"{MAPS}?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"),
         *MADE[:3], get(f"{MAPS}?limit=1", name="first", compare=("kind",)), get(MAPS + "?limit=1&resourceVersion=5&continue={{first:metadata.continue}}", compare=PAGE),
         get(MAPS + "?limit=1&resourceVersionMatch=Exact&continue={{first:metadata.continue}}", compare=PAGE)),
    Case("lists: versions", *MADE[:2], get(f"{MAPS}?{OURS}&resourceVersion=0", compare=("kind",)), get(MAPS + "?" + OURS + "&resourceVersion={{1:metadata.resourceVersion}}", compare=("kind",)),
         get(f"{MAPS}?resourceVersion=99999999999"), get(f"{MAPS}?resourceVersion=x"), get(f"{MAPS}?resourceVersionMatch=Exact"), get(f"{MAPS}?resourceVersion=0&resourceVersionMatch=Exact"),
         get(f"{MAPS}?resourceVersion=1&resourceVersionMatch=foo"), get(f"{MAPS}/a?resourceVersion=99999999999"), get(f"{MAPS}/a?resourceVersion=0", compare=("kind",)),
         get(MAPS + "?resourceVersionMatch=Exact&resourceVersion={{0:metadata.resourceVersion}}&" + OURS, compare=PAGE),
         get(MAPS + "?resourceVersionMatch=NotOlderThan&resourceVersion={{0:metadata.resourceVersion}}&" + OURS, compare=PAGE)),
    *[Case(f"lists: labels {selector}", *[post(MAPS, config_map(name, labels={"name": name, "rank": str(rank)})) for rank, name in enumerate("abcd", 1)],
           get(f"{MAPS}?labelSelector={selector}", compare=PAGE)) for selector in LABELS],
    Case("lists: fields of ConfigMaps", *MADE[:2], *[get(f"{MAPS}?fieldSelector={selector}&{OURS}", compare=PAGE) for selector in FIELDS]),
    Case("lists: fields of Pods", post(PODS, pod("p")), *[get(f"{PODS}?fieldSelector={selector}", compare=PAGE) for selector in POD_FIELDS]),
    Case("lists: fields of others", *[get(f"/api/v1/{path}", compare=("kind", "items.0.metadata.name", "message", "reason")) for path in (
         "namespaces?fieldSelector=status.phase=Active,metadata.name=default", "namespaces?fieldSelector=metadata.name={{ns}}", "namespaces?fieldSelector=foo=x", "nodes?fieldSelector=spec.unschedulable=false,metadata.name=absent",
         "namespaces/{{ns}}/services?fieldSelector=spec.clusterIP=None", "namespaces/{{ns}}/services?fieldSelector=spec.type=ClusterIP", "namespaces/{{ns}}/secrets?fieldSelector=type=Opaque",
         "namespaces/{{ns}}/events?fieldSelector=involvedObject.name=x,reason=y,type=Normal,source=z", "namespaces/{{ns}}/events?fieldSelector=foo=y", "namespaces/{{ns}}/persistentvolumeclaims?fieldSelector=x=y")],
         get("/apis/batch/v1/namespaces/{{ns}}/jobs?fieldSelector=status.successful=0", compare=("kind", "message")), get("/apis/batch/v1/namespaces/{{ns}}/jobs?fieldSelector=spec.suspend=true"),
         get("/apis/apps/v1/namespaces/{{ns}}/deployments?fieldSelector=spec.replicas=1"), get("/apis/apps/v1/namespaces/{{ns}}/replicasets?fieldSelector=status.replicas=1", compare=("kind",))),
    Case("lists: no namespace", get("/api/v1/namespaces/absent/pods", compare=("kind", "items.0")), get("/api/v1/pods?limit=1", compare=("kind", "apiVersion")), get("/apis/batch/v1/jobs?limit=1", compare=("kind",))),
    Case("tables: columns", post(MAPS, config_map("a", {"x": "1"})), get(f"{MAPS}/a", accept=TABLE, compare=("kind", "apiVersion", "columnDefinitions", "rows.0.cells.0", "rows.0.cells.1", "rows.0.object.kind", "rows.0.object.apiVersion")),
         post(PODS, pod("p")), get(f"{PODS}/p", accept=TABLE, compare=("columnDefinitions", "rows.0.cells.0", "rows.0.cells.1", "rows.0.cells.2", "rows.0.cells.3")),
         *[get(f"/apis/{path}", accept=TABLE, compare=("columnDefinitions", "kind")) for path in ("apps/v1/namespaces/{{ns}}/deployments", "apps/v1/namespaces/{{ns}}/replicasets", "batch/v1/namespaces/{{ns}}/jobs",
           "coordination.k8s.io/v1/namespaces/{{ns}}/leases", "discovery.k8s.io/v1/namespaces/{{ns}}/endpointslices", "rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles", "rbac.authorization.k8s.io/v1/namespaces/{{ns}}/rolebindings",
           "autoscaling/v2/namespaces/{{ns}}/horizontalpodautoscalers", "scheduling.k8s.io/v1/priorityclasses", "apiextensions.k8s.io/v1/customresourcedefinitions", "events.k8s.io/v1/namespaces/{{ns}}/events")],
         *[get(f"{CORE}/{plural}", accept=TABLE, compare=("columnDefinitions", "kind")) for plural in ("events", "secrets", "serviceaccounts", "services")],
         *[get(f"/api/v1/{plural}?limit=1", accept=TABLE, compare=("columnDefinitions", "kind")) for plural in ("namespaces", "nodes")]),
    Case("tables: objects of rows", post(MAPS, config_map("a")), *[get(f"{MAPS}/a?includeObject={mode}", accept=TABLE, compare=("rows.0.object.kind", "rows.0.object.metadata.name", "message", "reason")) for mode in ("None", "Metadata", "Object", "foo")],
         get(f"{MAPS}/absent", accept=TABLE), get(MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", compare=("kind", "apiVersion")),
         get(f"{MAPS}/a", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), get(MAPS, accept="application/json;as=Foo;v=v1;g=meta.k8s.io")),
]  # fmt: skip
