"""The session by the official Python client: typed calls, its dynamic client, watches and streams."""

from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from kubernetes import client, config, dynamic, utils, watch
from tests.engines.clients.session import (
    LIMIT,
    PAGES,
    SessionTarget,
    check,
    config_map,
    definition,
    deployment,
    eventually,
    place,
    pod,
)


def typed(api: client.ApiClient, at: SessionTarget) -> None:
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=at.namespace)))
    for number in range(PAGES):
        core.create_namespaced_config_map(at.namespace, config_map(f"page-{number}", a="b"))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(
            at.namespace, limit=LIMIT, _continue=token, label_selector="session=clients"
        )
        names += [item.metadata.name for item in page.items]
        if not (token := page.metadata._continue):
            break
    check(names, [f"page-{number}" for number in range(PAGES)])
    version = page.metadata.resource_version
    patched = core.patch_namespaced_config_map("page-0", at.namespace, {"data": {"c": "d"}})
    check(patched.data, {"a": "b", "c": "d"})
    core.delete_namespaced_config_map("page-0", at.namespace)
    events, watching = [], watch.Watch()
    for event in watching.stream(
        core.list_namespaced_config_map,
        at.namespace,
        label_selector="session=clients",
        resource_version=version,
        timeout_seconds=60,
    ):
        events.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watching.stop()
    check(events, [("MODIFIED", "page-0"), ("DELETED", "page-0")])
    core.delete_collection_namespaced_config_map(at.namespace, label_selector="session=clients")
    check(core.list_namespaced_config_map(at.namespace, label_selector="session=clients").items, [])
    apps.create_namespaced_deployment(at.namespace, deployment("d"))
    scaled = apps.patch_namespaced_deployment_scale("d", at.namespace, {"spec": {"replicas": 1}})
    check(scaled.spec.replicas, 1)
    eventually(lambda: apps.read_namespaced_deployment("d", at.namespace).status.replicas == 1, "a replica")
    try:
        core.read_namespaced_config_map("page-0", at.namespace)
    except ApiException as error:
        check((error.status, error.reason), (404, "Not Found"))
    access = client.V1ResourceAttributes(verb="get", resource="pods", namespace=at.namespace)
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=access)
    )
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    check(answer.status.allowed, True)
    client.VersionApi(api).get_code()
    client.ApisApi(api).get_api_versions()
    for node in core.list_node().items:
        assert node.status.node_info.kubelet_version


def by_dynamic_client(api: client.ApiClient, at: SessionTarget) -> None:
    cluster: Any = dynamic.DynamicClient(api)
    maps = cluster.resources.get(api_version="v1", kind="ConfigMap")
    applied = maps.server_side_apply(
        body=config_map("applied", a="b"), namespace=at.namespace, field_manager="one"
    )
    check(applied.metadata.managedFields[0].operation, "Apply")
    try:
        maps.server_side_apply(body=config_map("applied", a="c"), namespace=at.namespace, field_manager="two")
    except dynamic.exceptions.ConflictError as error:
        check(error.status, 409)
    else:
        raise AssertionError("no conflict")
    forced = maps.server_side_apply(
        body=config_map("applied", a="c"),
        namespace=at.namespace,
        field_manager="two",
        force_conflicts=True,
    )
    check(forced.data.a, "c")
    group = f"{at.namespace}.example.dev"
    definitions = cluster.resources.get(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition"
    )
    definitions.create(body=definition(group))

    def served() -> Any:
        conditions = definitions.get(name=f"widgets.{group}").status.conditions or []
        return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

    eventually(served, "the definition established")
    cluster.resources.invalidate_cache()
    widgets = cluster.resources.get(api_version=f"{group}/v1", kind="Widget")
    widget = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"replicas": 1},
    }
    widgets.create(body=widget, namespace=at.namespace)
    patch = {"status": {"replicas": 3}}
    changed = widgets.status.patch(
        name="w", namespace=at.namespace, body=patch, content_type="application/merge-patch+json"
    )
    check((changed.spec.replicas, changed.status.replicas), (1, 3))
    definitions.delete(name=f"widgets.{group}")


def pods(api: client.ApiClient, at: SessionTarget) -> None:
    core = client.CoreV1Api(api)
    utils.create_from_dict(api, pod("p", "echo hello; sleep 600"), namespace=at.namespace)
    eventually(lambda: core.read_namespaced_pod("p", at.namespace).status.phase == "Running", "the Pod")
    eventually(lambda: core.read_namespaced_pod_log("p", at.namespace) == "hello\n", "its log")
    call = core.connect_get_namespaced_pod_exec
    said = stream(call, "p", at.namespace, command=["echo", "there"], stdout=True, stderr=True)
    check(said, "there\n")


def main() -> None:
    at = place()
    config.load_kube_config(at.kubeconfig)
    with client.ApiClient() as api:
        typed(api, at)
        by_dynamic_client(api, at)
        if at.pods:
            pods(api, at)
        core = client.CoreV1Api(api)
        core.delete_namespace(at.namespace)

        def gone() -> bool:
            try:
                core.read_namespace(at.namespace)
            except ApiException as error:
                return bool(error.status == 404)
            return False

        eventually(gone, "the namespace gone")


if __name__ == "__main__":
    main()
