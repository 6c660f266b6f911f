"""Ray's own autoscaler in the head's Pod of a cluster that asks for it, as KubeRay puts it there.

It reads what Ray waits for, and writes `replicas` and `workersToDelete` of the worker groups; the controller follows.
"""

import shlex

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import join_by
from steelyard_local_kubernetes.controllers.pods import owner_reference
from steelyard_local_kubernetes.controllers.ray import names

CONTAINER = "autoscaler"
_RESOURCES = {"cpu": "500m", "memory": "512Mi"}
# The command looks for the head at the machine's own address, which is not the Pod's; releases of Ray before 2.60 have
# no option for another one.
_PROGRAM = """
import os, sys
from ray.autoscaler._private.kuberay import run_autoscaler
from ray.scripts.scripts import main
run_autoscaler.get_node_ip_address = lambda *arguments: os.environ["POD_IP"]
sys.argv[0] = "ray"
main()
"""
_COMMAND = (
    f"python -c {shlex.quote(_PROGRAM)} kuberay-autoscaler "
    "--cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)


def is_autoscaled(cluster: Json) -> bool:
    return bool(cluster["spec"].get("enableInTreeAutoscaling"))


def is_second_version(cluster: Json) -> bool:
    """Return whether the cluster asks for the second version of Ray's autoscaler."""
    return is_autoscaled(cluster) and mapping(cluster["spec"], "autoscalerOptions").get("version") == "v2"


def variables(cluster: Json) -> list[Json]:
    """Return the variables that the head needs, too."""
    return [{"name": "RAY_enable_autoscaler_v2", "value": "1"}] if is_second_version(cluster) else []


def account(cluster: Json) -> str:
    """Return the name of the account by which the autoscaler reads and changes the cluster."""
    spec = mapping(cluster["spec"], "headGroupSpec", "template", "spec")
    return str(spec.get("serviceAccountName") or cluster["metadata"]["name"])


def add_to(cluster: Json, spec: Json) -> None:
    """Put the autoscaler's container into the Pod of the head, next to the first container."""
    head, options = spec["containers"][0], mapping(cluster["spec"], "autoscalerOptions")
    fields = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{names.CLUSTER}']",
        "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
        "RAY_HEAD_POD_NAME": "metadata.name",
        "POD_IP": "status.podIP",
    }
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    env.append({"name": "KUBERAY_CRD_VER", "value": "v1"})
    amounts: Json = {"requests": _RESOURCES, "limits": _RESOURCES}
    container: Json = {
        "name": CONTAINER,
        "image": options.get("image") or head.get("image", ""),
        "command": ["/bin/bash", "-c", "--"],
        # Ray knows the API's port by this variable alone.
        "args": [f"export KUBERNETES_SERVICE_PORT_HTTPS=$KUBERNETES_SERVICE_PORT; exec {_COMMAND}"],
        "env": join_by("name", env, variables(cluster), sequence(options, "env")),
        "resources": mapping(options, "resources") or amounts,
        # It writes its log where the dashboard reads it. The platform's certificates are mounted by both lists.
        "volumeMounts": join_by(
            "mountPath", sequence(head, "volumeMounts"), sequence(options, "volumeMounts")
        ),
    }
    optional: Json = {
        name: options[name] for name in ("envFrom", "imagePullPolicy", "securityContext") if name in options
    }
    spec["containers"].append({**container, **optional})
    spec["serviceAccountName"] = account(cluster)


def access(cluster: Json) -> list[Json]:
    """Return the account of the autoscaler, unless the template names one, and its rights."""
    metadata = {
        "name": cluster["metadata"]["name"],
        "namespace": cluster["metadata"]["namespace"],
        "labels": {names.CLUSTER: cluster["metadata"]["name"]},
        "ownerReferences": [owner_reference(cluster)],
    }
    group, name = "rbac.authorization.k8s.io", account(cluster)
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
    ]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": metadata["namespace"]}
    own: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "subjects": [subject],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": metadata["name"]},
    }
    return [*([own] if name == metadata["name"] else []), role, binding]
