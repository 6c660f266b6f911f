"""The session by kr8s."""

import kr8s
from kr8s.objects import ConfigMap, Deployment, Namespace, Pod

from tests.engines.clients.session import (
    PAGES,
    SECONDS,
    check,
    config_map,
    deployment,
    eventually,
    place,
    pod,
)


def main() -> None:
    at = place()
    api = kr8s.api(kubeconfig=at.kubeconfig, namespace=at.namespace)
    api.version()
    Namespace({"metadata": {"name": at.namespace}}, api=api).create()
    for number in range(PAGES):
        ConfigMap(config_map(f"page-{number}", a="b"), namespace=at.namespace, api=api).create()
    listed = list(kr8s.get("configmaps", namespace=at.namespace, label_selector="session=clients", api=api))
    check(sorted(item.name for item in listed), [f"page-{number}" for number in range(PAGES)])
    first = ConfigMap.get("page-0", namespace=at.namespace, api=api)
    first.patch({"data": {"c": "d"}})
    check(dict(first.data), {"a": "b", "c": "d"})
    first.label(seen="yes")
    check(first.labels["seen"], "yes")
    events = []
    for kind, item in api.watch("configmaps", namespace=at.namespace, label_selector="seen=yes"):
        events.append((kind, item.name))
        if kind == "ADDED":
            first.delete()
        if kind == "DELETED":
            break
    check(events[-1], ("DELETED", "page-0"))
    deployed = Deployment(deployment("d"), namespace=at.namespace, api=api)
    deployed.create()
    deployed.patch({"spec": {"replicas": 1}}, subresource="scale")
    eventually(lambda: _replicas(deployed) == 1, "a replica")
    if at.pods:
        ran = Pod(pod("p", "echo hello; sleep 600"), namespace=at.namespace, api=api)
        ran.create()
        ran.wait("condition=Ready", timeout=SECONDS)
        eventually(lambda: list(ran.logs()) == ["hello"], "its log")
        check(ran.exec(["echo", "there"]).stdout, b"there\n")
    Namespace.get(at.namespace, api=api).delete()


def _replicas(deployed: Deployment) -> int:
    deployed.refresh()
    return int(deployed.status.get("replicas", 0))


if __name__ == "__main__":
    main()
