"""The session by lightkube."""

from typing import Any

from lightkube import ApiError, Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import PatchType

from tests.engines.clients.session import PAGES, check, config_map, deployment, eventually, place, pod


def main() -> None:
    at = place()
    config = KubeConfig.from_file(at.kubeconfig)
    cluster: Any = Client(config=config, namespace=at.namespace, field_manager="session")
    cluster.create(Namespace(metadata=ObjectMeta(name=at.namespace)))
    for number in range(PAGES):
        cluster.create(ConfigMap.from_dict(config_map(f"page-{number}", a="b")))
    listed = cluster.list(ConfigMap, labels={"session": "clients"}, chunk_size=2)
    check([item.metadata.name for item in listed], [f"page-{number}" for number in range(PAGES)])
    patched = cluster.patch(ConfigMap, "page-0", {"data": {"c": "d"}}, patch_type=PatchType.MERGE)
    check(patched.data, {"a": "b", "c": "d"})
    applied = cluster.apply(ConfigMap.from_dict(config_map("applied", a="b")))
    check(applied.data, {"a": "b"})
    try:
        cluster.apply(ConfigMap.from_dict(config_map("applied", a="c")), field_manager="another")
    except ApiError as error:
        check(error.status.code, 409)
    else:
        raise AssertionError("no conflict")
    forced = cluster.apply(
        ConfigMap.from_dict(config_map("applied", a="c")), field_manager="another", force=True
    )
    check(forced.data, {"a": "c"})
    for kind, item in cluster.watch(ConfigMap, fields={"metadata.name": "applied"}):
        if kind == "ADDED":
            cluster.delete(ConfigMap, "applied")
        if kind == "DELETED":
            check(item.metadata.name, "applied")
            break
    cluster.create(Deployment.from_dict(deployment("d")))
    # A replacement could meet the controller's own write of the status.
    scaled = cluster.patch(Deployment.Scale, "d", {"spec": {"replicas": 1}}, patch_type=PatchType.MERGE)
    check(scaled.spec.replicas, 1)
    if at.pods:
        cluster.create(Pod.from_dict(pod("p", "echo hello; exit 0")))
        eventually(lambda: cluster.get(Pod, "p").status.phase == "Succeeded", "the Pod's end")
        check(list(cluster.log("p")), ["hello\n"])
    cluster.delete(Namespace, at.namespace)


if __name__ == "__main__":
    main()
