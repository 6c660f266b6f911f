"""The session by kubernetes_asyncio."""

import asyncio

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.stream import WsApiClient

from tests.engines.clients.session import LIMIT, PAGES, SECONDS, check, config_map, deployment, place, pod


async def main() -> None:
    at = place()
    await config.load_kube_config(at.kubeconfig)
    async with ApiClient() as api, asyncio.timeout(2 * SECONDS):
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        await core.create_namespace({"metadata": {"name": at.namespace}})
        for number in range(PAGES):
            await core.create_namespaced_config_map(at.namespace, config_map(f"page-{number}", a="b"))
        names: list[str] = []
        token = None
        while True:
            page = await core.list_namespaced_config_map(
                at.namespace, limit=LIMIT, _continue=token, label_selector="session=clients"
            )
            names += [item.metadata.name for item in page.items]
            if not (token := page.metadata._continue):
                break
        check(names, [f"page-{number}" for number in range(PAGES)])
        version = page.metadata.resource_version
        patched = await core.patch_namespaced_config_map("page-0", at.namespace, {"data": {"c": "d"}})
        check(patched.data, {"a": "b", "c": "d"})
        await core.delete_namespaced_config_map("page-0", at.namespace)
        events = []
        async with watch.Watch() as watching:
            async for event in watching.stream(
                core.list_namespaced_config_map,
                at.namespace,
                label_selector="session=clients",
                resource_version=version,
                timeout_seconds=60,
            ):
                events.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    break
        check(events, [("MODIFIED", "page-0"), ("DELETED", "page-0")])
        await apps.create_namespaced_deployment(at.namespace, deployment("d"))
        scaled = await apps.patch_namespaced_deployment_scale("d", at.namespace, {"spec": {"replicas": 1}})
        check(scaled.spec.replicas, 1)
        if at.pods:
            await core.create_namespaced_pod(at.namespace, pod("p", "echo hello; sleep 600"))
            async with watch.Watch() as watching:
                async for event in watching.stream(core.list_namespaced_pod, at.namespace):
                    if event["object"].status.phase == "Running":
                        break
            followed = await core.read_namespaced_pod_log(
                "p", at.namespace, follow=True, _preload_content=False
            )
            check(await followed.content.readline(), b"hello\n")
            followed.close()
            async with WsApiClient() as sockets:
                call = client.CoreV1Api(sockets).connect_get_namespaced_pod_exec
                said = await call(
                    "p",
                    at.namespace,
                    command=["echo", "there"],
                    stdin=False,
                    stdout=True,
                    stderr=True,
                    tty=False,
                )
                check(said, "there\n")
        await core.delete_namespace(at.namespace)


if __name__ == "__main__":
    asyncio.run(main())
