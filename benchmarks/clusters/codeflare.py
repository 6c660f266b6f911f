"""The operations of codeflare-sdk, in its own environment: `python -m benchmarks.clusters.codeflare SIZE ...`.

`apply` waits for certificates, which plain KubeRay does not make, for a time that its caller chooses: here the shortest
one, a second.
"""

import json
import sys

import codeflare_sdk as sdk

from benchmarks.clusters.operations import Figures, measure
from kubernetes import client, config


def figures_of(size: int) -> Figures:
    namespace = f"with-{size}"

    def configuration(name: str) -> sdk.ClusterConfiguration:
        return sdk.ClusterConfiguration(name=name, namespace=namespace)

    there, created, applied = (sdk.Cluster(configuration(name)) for name in ("c-0", "created", "applied"))
    objects = client.CustomObjectsApi()

    def exists(name: str) -> bool:
        """Return whether the cluster is there: the client prints what goes wrong, and answers None in either case."""
        where = ("ray.io", "v1", namespace, "rayclusters", name)
        try:
            objects.get_namespaced_custom_object(*where)
        except client.ApiException:
            return False
        return True

    figures = measure(
        {
            "create": (created.up, None),
            "apply": (lambda: applied.apply(timeout=1), None),
            "get": (lambda: sdk.get_cluster("c-0", namespace).config.name, "c-0"),
            "status": (lambda: there.status(print_to_console=False)[0].name, "READY"),
            "list": (lambda: len(sdk.list_all_clusters(namespace, print_to_console=False)), size + 2),
            "delete": (created.down, None),
        },
        once=size >= 1000,  # a list of 1,000 takes minutes
    )
    if exists("created") or not exists("applied"):
        raise SystemExit("an operation of codeflare-sdk has failed")
    applied.down()
    return figures


if __name__ == "__main__":
    config.load_kube_config()
    sdk.set_api_client(client.ApiClient())
    print(json.dumps({size: figures_of(int(size)) for size in sys.argv[1:]}))
