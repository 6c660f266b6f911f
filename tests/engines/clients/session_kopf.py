"""An operator by kopf: handlers of a custom kind, its status, children with owners, finalizers."""

import asyncio
import os
from typing import Any

import kopf

from kubernetes import client, config
from tests.engines.clients.session import SECONDS, check, definition, eventually, place

SEEN: list[str] = []


def register(registry: kopf.OperatorRegistry, group: str) -> None:
    @kopf.on.startup(registry=registry)
    def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = True
        settings.watching.server_timeout = 30

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.create(group, "v1", "widgets", id="create", registry=registry)
    def create(spec: Any, name: str, namespace: str, **_: Any) -> dict[str, Any]:
        child = {"metadata": {"name": f"{name}-child"}, "data": {"size": str(spec["size"])}}
        kopf.adopt(child)
        client.CoreV1Api().create_namespaced_config_map(namespace, child)
        SEEN.append("create")
        return {"child": f"{name}-child"}

    @kopf.on.update(group, "v1", "widgets", field="spec.size", registry=registry)
    def update(old: int, new: int, **_: Any) -> None:
        SEEN.append(f"update {old} {new}")

    @kopf.on.delete(group, "v1", "widgets", registry=registry)
    def delete(**_: Any) -> None:
        SEEN.append("delete")


def steps(namespace: str, group: str) -> None:
    objects, core = client.CustomObjectsApi(), client.CoreV1Api()
    where = (group, "v1", namespace, "widgets")
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    objects.create_namespaced_custom_object(*where, widget)
    eventually(lambda: "create" in SEEN, "created")

    def handled() -> Any:
        stored = objects.get_namespaced_custom_object(*where, "w")
        return stored if stored.get("status", {}).get("create") else None

    stored = eventually(handled, "its status")
    check(stored["status"]["create"], {"child": "w-child"})
    owner = core.read_namespaced_config_map("w-child", namespace).metadata.owner_references[0]
    check(owner.uid, stored["metadata"]["uid"])
    objects.patch_namespaced_custom_object(*where, "w", {"spec": {"size": 2}})
    eventually(lambda: "update 1 2" in SEEN, "updated")
    objects.delete_namespaced_custom_object(*where, "w")
    eventually(lambda: "delete" in SEEN, "deleted")

    def collected() -> bool:
        try:
            core.read_namespaced_config_map("w-child", namespace)
        except client.ApiException as error:
            return bool(error.status == 404)
        return False

    eventually(collected, "its child gone")


def is_served(group: str) -> bool:
    """Return whether discovery names the kind."""
    try:
        client.CustomObjectsApi().get_api_resources(group, "v1")
    except client.ApiException as error:
        if error.status == 404:
            return False
        raise
    return True


async def main() -> None:
    at = place()
    os.environ["KUBECONFIG"] = at.kubeconfig
    config.load_kube_config(at.kubeconfig)
    core, definitions = client.CoreV1Api(), client.ApiextensionsV1Api()
    core.create_namespace({"metadata": {"name": at.namespace}})
    group = f"{at.namespace}.example.dev"
    definitions.create_custom_resource_definition(definition(group))
    # A real server names a new kind a moment after it is defined. The operator looks once, at its start.
    await asyncio.to_thread(eventually, lambda: is_served(group), "its kind")
    registry = kopf.OperatorRegistry()
    register(registry, group)
    ready, stop = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(registry=registry, namespaces=[at.namespace], ready_flag=ready, stop_flag=stop)
    )
    try:
        await asyncio.wait_for(ready.wait(), SECONDS)
        await asyncio.to_thread(steps, at.namespace, group)
    finally:
        stop.set()
        await asyncio.wait([operator], timeout=SECONDS)
        definitions.delete_custom_resource_definition(f"widgets.{group}")
        core.delete_namespace(at.namespace)


if __name__ == "__main__":
    asyncio.run(main())
