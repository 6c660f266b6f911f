# ruff: noqa: E501 - a table is read by its rows
"""Watches: resumption, selectors, bookmarks, initial events, tables."""

from tests.kubernetes_differential.case import TABLE, Case, Events, Watch, delete, get, merge, post
from tests.kubernetes_differential.samples import MAPS, config_map

SHORT = (
    "type",
    "object.kind",
    "object.metadata.name",
    "object.data",
    "object.message",
    "object.code",
    "object.reason",
)
ON = "labelSelector=on=yes"
SINCE = "resourceVersion={{0:metadata.resourceVersion}}"


def on(name: str, value: str, data: str = "1") -> dict[str, object]:
    return config_map(name, {"v": data}, labels={"on": value})


CHANGES = (post(MAPS, on("b", "yes")), merge(f"{MAPS}/b", {"data": {"v": "2"}}), merge(f"{MAPS}/b", {"data": {"v": "2"}}), merge(f"{MAPS}/b", {"metadata": {"labels": {"on": "no"}}}),
           merge(f"{MAPS}/b", {"metadata": {"labels": {"on": "yes"}}}), delete(f"{MAPS}/b"), post(MAPS, on("c", "yes")))  # fmt: skip
CASES = [
    Case("watch: changes", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&fieldSelector=metadata.name!=kube-root-ca.crt"), *CHANGES, Events("w", 6)),
    Case("watch: changes of what is selected", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}"), *CHANGES, Events("w", 6)),
    Case("watch: by name", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&fieldSelector=metadata.name=b"), *CHANGES, Events("w", 5)),
    Case("watch: from the past", post(MAPS, on("a", "yes")), *CHANGES, Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}"), Events("w", 6)),
    *[Case(f"watch: from {query or 'nothing'}", post(MAPS, on("a", "yes")), post(MAPS, on("b", "yes")), delete(f"{MAPS}/b"), Watch("w", f"{MAPS}?watch=1&{ON}&timeoutSeconds=1{query}"), Events("w", compare=SHORT))
      for query in ("", "&resourceVersion=0", "&resourceVersion=")],
    Case("watch: initial events", post(MAPS, on("a", "yes")), post(MAPS, on("b", "yes")), Watch("w", f"{MAPS}?watch=1&{ON}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"),
         Events("w", 3), post(MAPS, on("c", "yes")), Events("w", 1)),
    Case("watch: initial events, wrongly", *[get(f"{MAPS}?{query}&timeoutSeconds=1", compare=("kind", "message", "reason", "details")) for query in ("watch=1&sendInitialEvents=true", "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
         "watch=1&resourceVersionMatch=NotOlderThan", "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")]),
    Case("watch: no initial events", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{ON}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"), post(MAPS, on("b", "yes")), Events("w", 1)),
    Case("watch: wrong parameters", *[get(f"{MAPS}?{query}&timeoutSeconds=1", compare=("kind", "message", "reason", "details")) for query in ("watch=1&resourceVersion=x", "watch=1&labelSelector=a b", "watch=1&fieldSelector=x=y", "watch=x&limit=1&labelSelector=no=no", "watch=1&continue=x", "watch=1&limit=1&labelSelector=no=no")]),
    Case("watch: too far ahead", Watch("w", f"{MAPS}?watch=1&resourceVersion=99999999999&timeoutSeconds=2"), Events("w", compare=SHORT)),
    Case("watch: bookmarks", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}&allowWatchBookmarks=true&timeoutSeconds=12"), post(MAPS, on("b", "yes")), Events("w", 2, compare=("type", "object.kind", "object.apiVersion", "object.metadata.name"))),
    Case("watch: a selector of shards", post(MAPS, on("a", "yes")), get(f"{MAPS}?{ON}&shardSelector=x", compare=("kind", "items.0.metadata.name")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}&shardSelector=x"), post(MAPS, on("b", "yes")), Events("w", 1, compare=SHORT)),
    Case("watch: one object", post(MAPS, on("a", "yes")), get(f"{MAPS}/a?watch=1&timeoutSeconds=1", compare=("kind",)), Watch("w", "/api/v1/watch/namespaces/{{ns}}/configmaps/a?timeoutSeconds=1"), Events("w", compare=SHORT),
         Watch("v", "/api/v1/watch/namespaces/{{ns}}/configmaps?labelSelector=on&timeoutSeconds=1"), Events("v", compare=SHORT)),
    Case("watch: tables", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}", accept=TABLE), *CHANGES[:2], Events("w", 2, compare=("type", "object.kind", "object.rows.0.cells.0", "object.rows.0.cells.1", "object.columnDefinitions.0.name", "object.rows.0.object.kind"))),
    Case("watch: metadata alone", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), *CHANGES[:2], Events("w", 2)),
    Case("watch: finalizers", post(MAPS, on("a", "yes")), Watch("w", f"{MAPS}?watch=1&{SINCE}&{ON}"), post(MAPS, config_map("b", labels={"on": "yes"}, finalizers=["a.b/c"])), delete(f"{MAPS}/b"), delete(f"{MAPS}/b"), merge(f"{MAPS}/b", {"metadata": {"finalizers": None}}), post(MAPS, on("z", "yes")), Events("w", 4)),
]  # fmt: skip
