"""The bounds of the chart on its own accounts, as a real API server enforces them: refusals, and requests that pass."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.simulation.entities import make_evaluation
from steelyard_common.types import Json
from steelyard_schema.names import account_namespace
from tests.engines.build import binaries
from tests.engines.chart.helm import Cluster, named, template
from tests.engines.chart.test_templates import SERVERS
from tests.engines.control_plane import control_plane

OF_ACCOUNT = account_namespace("demo")
OPERATOR, ORCHESTRATOR, INFORMER = "steelyard-operator", "steelyard-orchestrator", "steelyard-informer"
VALUES: Json = {
    "shape": "large",
    **SERVERS,
    "customResourceDefinitions": True,
    "rights": {"mpi": True, "elastic": True, "namespaces": ["*", "trusted"]},
}
BOUNDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
NEEDED = (
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with the release's accounts, rights and bounds, and namespaces of all sorts."""
    with control_plane(
        binaries(), tmp_path_factory.mktemp("bounds"), flags=["--allow-privileged"]
    ) as kubeconfig:
        cluster = Cluster(kubeconfig)
        for namespace in ("steelyard", OF_ACCOUNT, "team", "trusted"):
            cluster.kubectl("create", "namespace", namespace)
            for account in ("strong", "mpi-launcher"):
                cluster.kubectl("-n", namespace, "create", "serviceaccount", account)
        for namespace in ("kube-system", "team"):
            cluster.kubectl("-n", namespace, "create", "role", "test", "--verb=get", "--resource=pods")
        cluster.kubectl("create", "clusterrole", "test", "--verb=get", "--resource=pods")
        chosen = [obj for obj in template(VALUES) if obj["kind"] in (*NEEDED, *BOUNDS)]
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(chosen))
        # The API server begins to enforce each policy a moment after it was made.
        for user, obj in (
            (OPERATOR, make_pod("kube-system")),
            (ORCHESTRATOR, make_secret("kube-system")),
            (OPERATOR, make_pod(OF_ACCOUNT, hostNetwork=True)),
            (ORCHESTRATOR, make_secret(OF_ACCOUNT, type="kubernetes.io/service-account-token")),
        ):
            end = time.monotonic() + 120
            while not ask(cluster, user, obj):
                assert time.monotonic() < end, f"{user}: not bounded"
                time.sleep(0.2)
        yield cluster


def make_pod(namespace: str, kind: str = "Pod", security: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "image", "securityContext": security or {}}
    pod = {"restartPolicy": "Never", "containers": [container], **spec}
    metadata = {"name": "test", "namespace": namespace}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    labels = {"metadata": {"labels": {"app": "test"}}}
    if kind == "Job":
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {"template": {"spec": pod}},
        }
    wanted = {
        "selector": {"matchLabels": {"app": "test"}},
        "template": labels | {"spec": pod | {"restartPolicy": "Always"}},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": wanted}


def make(kind: str, namespace: str, version: str = "v1", **fields: object) -> Json:
    metadata = {"name": "test", "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def make_secret(namespace: str, type: str = "Opaque") -> Json:
    annotations = {"kubernetes.io/service-account.name": "strong"}
    secret = make("Secret", namespace, type=type)
    return secret | {"metadata": secret["metadata"] | {"annotations": annotations}}


def make_binding(namespace: str, role: str = "Role", subject: str = "") -> Json:
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": "strong", "namespace": subject or namespace}]
    role_ref = {"apiGroup": rbac, "kind": role, "name": "test"}
    return make("RoleBinding", namespace, f"{rbac}/v1", roleRef=role_ref, subjects=subjects)


def make_workflow(namespace: str) -> Json:
    resource = manifest(make_evaluation(), None, None)
    return resource | {"metadata": resource["metadata"] | {"namespace": namespace}}


def make_lease(namespace: str) -> Json:
    return make("Lease", namespace, "coordination.k8s.io/v1", spec={})


def ask(cluster: Cluster, user: str, obj: Json) -> str:
    """Return the API server's refusal of a creation, which is not carried out; empty where there is none."""
    account = f"system:serviceaccount:steelyard:{user}"
    command = [binaries() / "kubectl", "--kubeconfig", cluster.kubeconfig, "--as", account]
    done = subprocess.run(
        [*map(str, command), "create", "--dry-run=server", "--validate=false", "-f", "-"],
        input=json.dumps(obj),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


HOST_PATH: Json = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
ELSEWHERE = "in the namespace"
FORBIDDEN: dict[str, tuple[str, Json, str]] = {
    "a Pod beside the control plane": (OPERATOR, make_pod("kube-system"), ELSEWHERE),
    "a Pod beside the platform": (OPERATOR, make_pod("steelyard"), ELSEWHERE),
    "a Job beside the platform": (OPERATOR, make_pod("steelyard", "Job"), ELSEWHERE),
    "an account beside the platform": (OPERATOR, make("ServiceAccount", "steelyard"), ELSEWHERE),
    "a step beside the public objects of the system": (OPERATOR, make_pod("kube-public", "Job"), ELSEWHERE),
    "a binding beside the control plane": (OPERATOR, make_binding("kube-system"), ELSEWHERE),
    "a Secret of the platform": (ORCHESTRATOR, make_secret("steelyard"), ELSEWHERE),
    "a Secret of a team": (ORCHESTRATOR, make_secret("team"), ELSEWHERE),
    "a workflow of a team": (ORCHESTRATOR, make_workflow("team"), ELSEWHERE),
    "a namespace that is no account's": (
        ORCHESTRATOR,
        make("Namespace", "") | {"metadata": {"name": "team2"}},
        ELSEWHERE,
    ),
    "a lease beside the control plane": (INFORMER, make_lease("kube-system"), "forbidden"),
    "a Pod on the network of the node": (OPERATOR, make_pod(OF_ACCOUNT, hostNetwork=True), "hostNetwork"),
    "a Pod among the processes of the node": (OPERATOR, make_pod("team", hostPID=True), "hostPID"),
    "a Pod with the files of the node": (OPERATOR, make_pod("team", **HOST_PATH), "hostPath"),
    "a Job with the files of the node": (OPERATOR, make_pod(OF_ACCOUNT, "Job", **HOST_PATH), "hostPath"),
    "a Deployment with the files of the node": (
        OPERATOR,
        make_pod(OF_ACCOUNT, "Deployment", **HOST_PATH),
        "hostPath",
    ),
    "a privileged container": (OPERATOR, make_pod("team", security={"privileged": True}), "privileged"),
    "a privileged init container": (
        OPERATOR,
        make_pod(
            "team",
            initContainers=[{"name": "first", "image": "image", "securityContext": {"privileged": True}}],
        ),
        "privileged",
    ),
    "a Pod of another account": (
        OPERATOR,
        make_pod("team", serviceAccountName="strong"),
        "serviceAccountName",
    ),
    "a Job of another account": (
        OPERATOR,
        make_pod("team", "Job", serviceAccountName="strong"),
        "serviceAccountName",
    ),
    "a token in a Secret": (
        ORCHESTRATOR,
        make_secret(OF_ACCOUNT, type="kubernetes.io/service-account-token"),
        "Opaque",
    ),
    "a binding of a ClusterRole": (OPERATOR, make_binding("team", "ClusterRole"), "binds Roles"),
    "a binding for an account of elsewhere": (
        OPERATOR,
        make_binding("team", subject="kube-system"),
        "binds Roles",
    ),
}
ALLOWED: dict[str, tuple[str, Json]] = {
    "a step": (OPERATOR, make_pod(OF_ACCOUNT, "Job")),
    "a Secret that opens a registry": (
        ORCHESTRATOR,
        make(
            "Secret",
            OF_ACCOUNT,
            type="kubernetes.io/dockerconfigjson",
            data={".dockerconfigjson": base64.b64encode(b'{"auths": {}}').decode()},
        ),
    ),
    "a session": (OPERATOR, make_pod(OF_ACCOUNT, "Deployment")),
    "a replica": (OPERATOR, make_pod(OF_ACCOUNT)),
    "a replica of a user of kubectl": (OPERATOR, make_pod("team", serviceAccountName="default")),
    "a launcher": (OPERATOR, make_pod("team", serviceAccountName="mpi-launcher")),
    "an account of a launcher": (OPERATOR, make("ServiceAccount", "team")),
    "a replica in a namespace that is named": (
        OPERATOR,
        make_pod("trusted", hostNetwork=True, serviceAccountName="strong", **HOST_PATH),
    ),
    "a ConfigMap": (OPERATOR, make("ConfigMap", OF_ACCOUNT)),
    "a lease": (OPERATOR, make_lease("steelyard")),
    "a lease of the orchestrator": (ORCHESTRATOR, make_lease("steelyard")),
    "a lease of the informer": (INFORMER, make_lease("steelyard")),
    "a namespace of an account": (
        ORCHESTRATOR,
        make("Namespace", "") | {"metadata": {"name": account_namespace("other")}},
    ),
    "a workflow": (ORCHESTRATOR, make_workflow(OF_ACCOUNT)),
    "a binding of a launcher": (OPERATOR, make_binding("team")),
    "a Secret of an account": (ORCHESTRATOR, make_secret(OF_ACCOUNT)),
    "a policy of an account": (
        ORCHESTRATOR,
        make("NetworkPolicy", OF_ACCOUNT, "networking.k8s.io/v1", spec={"podSelector": {}}),
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_out_of_bounds_is_refused(cluster: Cluster, name: str) -> None:
    user, obj, said = FORBIDDEN[name]
    refusal = ask(cluster, user, obj)
    assert said in refusal
    if said != "forbidden":  # by RBAC itself
        assert "ValidatingAdmissionPolicy" in refusal


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_platform_does_is_allowed(cluster: Cluster, name: str) -> None:
    assert ask(cluster, *ALLOWED[name]) == ""


def test_the_types_of_the_expressions_are_right(cluster: Cluster) -> None:
    for policy in cluster.get("validatingadmissionpolicies")["items"]:
        checked = policy["status"]
        assert checked["observedGeneration"] == policy["metadata"]["generation"]
        warnings = checked.get("typeChecking", {}).get("expressionWarnings", [])
        # One expression for Pods and for what makes Pods: the other's fields are unknown to each.
        if not policy["metadata"]["name"].endswith(("-pods", "-tokens")):
            assert warnings == []


def test_other_users_are_not_bounded(cluster: Cluster) -> None:
    cluster.kubectl(
        "-n",
        "team",
        "create",
        "--dry-run=server",
        "-f",
        "-",
        stdin=json.dumps(make_pod("team", hostPID=True)),
    )


def test_bounds_follow_the_values() -> None:
    assert not named(template(VALUES | {"rights": {"bounded": False}}), BOUNDS[0])
    assert not named(template(VALUES | {"serviceAccount": {"existing": "mine"}}), BOUNDS[0])
    for shape, accounts in (("large", [ORCHESTRATOR, INFORMER]), ("standalone", ["steelyard-platform"])):
        policies = named(template(VALUES | {"shape": shape}), BOUNDS[0])
        text = json.dumps(policies["steelyard-steelyard-platform-namespaces"]["spec"]["matchConditions"])
        assert all(f"system:serviceaccount:steelyard:{account}'" in text for account in accounts), shape
    policies = named(template(VALUES | {"rights": {"namespaces": ["trusted"]}}), BOUNDS[0])
    [of_users] = [
        variable["expression"]
        for variable in policies["steelyard-steelyard-operator-namespaces"]["spec"]["variables"]
        if variable["name"] == "ofUsers"
    ]
    assert of_users == 'request.namespace in ["trusted"]'
