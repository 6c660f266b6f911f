"""A scheduler that stands for the scheduler plugins: it binds a PodGroup's Pods once `minMember` of them are there.

The embedded Kubernetes leaves Pods of other schedulers alone.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config

SCHEDULER = "scheduler-plugins-scheduler"
"""Name by which the published tests ask for it."""
GROUP, VERSION, PLURAL = "scheduling.x-k8s.io", "v1alpha1", "podgroups"
LABEL = f"{GROUP}/pod-group"
PAUSE = 0.5


@contextmanager
def scheduler(kubeconfig: Path) -> Iterator[None]:
    """Install the definition of PodGroups and schedule them."""
    api = config.new_client_from_config(str(kubeconfig))
    client.ApiextensionsV1Api(api).create_custom_resource_definition(definition())
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(PAUSE):
            bind(client.CoreV1Api(api), client.CustomObjectsApi(api))

    thread = threading.Thread(target=run, name="gangs")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def bind(core: Any, custom: Any) -> None:
    """Bind the Pods of every group that is whole."""
    members = defaultdict(list)
    for pod in core.list_pod_for_all_namespaces(label_selector=LABEL).items:
        if pod.spec.scheduler_name == SCHEDULER and not pod.metadata.deletion_timestamp:
            members[pod.metadata.namespace, pod.metadata.labels[LABEL]].append(pod)
    node = core.list_node().items[0].metadata.name
    for group in custom.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]:
        pods = members[group["metadata"]["namespace"], group["metadata"]["name"]]
        if len(pods) < group["spec"]["minMember"]:
            continue
        for pod in pods:
            if not pod.spec.node_name:
                core.create_namespaced_binding(
                    pod.metadata.namespace,
                    {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": node}},
                    _preload_content=False,  # the client cannot read its own call's answer
                )


def definition() -> dict[str, Any]:
    """Return the definition of PodGroups, which keeps whatever it is given."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PodGroup", "plural": PLURAL, "singular": "podgroup"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            # The group is Kubernetes' own by its name, and such definitions say who approved them.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in of the tests"},
        },
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
