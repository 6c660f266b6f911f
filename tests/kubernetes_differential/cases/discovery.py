# ruff: noqa: E501 - a table is read by its rows
"""Discovery, versions, health and OpenAPI (suite K): what clients read before anything else."""

from tests.kubernetes_differential.case import Case, Until, get, post
from tests.kubernetes_differential.samples import CRDS, definition

GROUPS = ("apps/v1", "batch/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1", "rbac.authorization.k8s.io/v1", "autoscaling/v1", "autoscaling/v2", "scheduling.k8s.io/v1",
          "authentication.k8s.io/v1", "authorization.k8s.io/v1", "apiextensions.k8s.io/v1", "networking.k8s.io/v1", "policy/v1", "storage.k8s.io/v1", "certificates.k8s.io/v1", "admissionregistration.k8s.io/v1", "apiregistration.k8s.io/v1", "node.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1")  # fmt: skip
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
OPERATIONS = ("paths./apis/{group}.get",)
ONE = "paths./apis/apps/v1/namespaces/{namespace}/deployments/{name}"
POSTED = "paths./apis/apps/v1/namespaces/{namespace}/deployments"

CASES = [
    Case("discovery: roots", *[get(path, compare=("kind", "apiVersion", "versions")) for path in ("/api", "/api/", "/apis", "/apis/")], get("/version", compare=("major", "minor", "gitVersion", "platform")), get("/version/", compare=("major",)), get("/", compare=("kind", "message")), namespaced=False),
    Case("discovery: health", *[get(path) for path in ("/healthz", "/readyz", "/livez", "/healthz/ping", "/healthz/etcd", "/healthz/foo", "/readyz/ping", "/livez/ping")], get("/readyz?verbose", compare=("x",)), get("/healthz?exclude=etcd", compare=("x",)), namespaced=False),
    Case("discovery: api/v1", get("/api/v1"), namespaced=False),
    *[Case(f"discovery: {group}", get(f"/apis/{group}"), get(f"/apis/{group}/", compare=("kind",)), get(f"/apis/{group.partition('/')[0]}", compare=("kind", "name", "preferredVersion"))) for group in GROUPS],
    Case("discovery: aggregated", get("/api", accept=V2, compare=("kind", "apiVersion", "items.0.metadata.name", "items.0.versions.0.freshness")), get("/apis", accept=V2, compare=("kind", "apiVersion", "items.0.metadata.name", "items.1.metadata.name")), namespaced=False),
    Case("discovery: of a definition", post(CRDS, definition(), compare=("kind",)), Until(CRDS + "/widgets.{{group}}", {"status.conditions[type=Established].status": "True"}, compare=("kind",)), Until("/apis/{{group}}/v1", compare=("kind", "groupVersion", "resources.0.name", "resources.0.verbs", "resources.0.kind", "resources.1.name", "resources.1.verbs")), Until("/apis/{{group}}", compare=("versions", "preferredVersion"))),
    Case("openapi: v3", get("/openapi/v3", compare=("kind",)), get("/openapi/v3/apis/apps/v1", compare=("openapi", f"{POSTED}.get.x-kubernetes-action", f"{POSTED}.post.x-kubernetes-group-version-kind")), get("/openapi/v3/api/v1", compare=("openapi", "components.schemas.io\\.k8s")), get("/openapi/v3/apis/foo/v1"), namespaced=False),
    Case("openapi: patches", get("/openapi/v3/apis/apps/v1", compare=(f"{ONE}.patch.x-kubernetes-action", *(f"{ONE}.patch.parameters.{index}.name" for index in range(4)))), namespaced=False),
    Case("openapi: v2", get("/openapi/v2", compare=("swagger", "info.title", "definitions.x")), get("/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf", compare=("x",)), namespaced=False),
]  # fmt: skip
