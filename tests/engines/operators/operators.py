"""KubeRay, AppWrapper and Kueue as processes of the real node: their objects, settings and commands.

Their definitions and webhooks are those of their own kustomizations. Their Deployments are left out: as processes they
begin within seconds, and no image of them is made.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from steelyard_common.types import Json
from tests.engines.build import OPERATORS, binaries, module_folder, operators
from tests.engines.node.configs import Addition
from tests.engines.operators import image

KUSTOMIZATIONS = {
    "github.com/ray-project/kuberay/ray-operator": "config/crd",
    "github.com/project-codeflare/appwrapper": "config/default",
    "sigs.k8s.io/kueue": "config/default",
}
KINDS = (
    *("Namespace", "CustomResourceDefinition", "MutatingWebhookConfiguration"),
    *("ValidatingWebhookConfiguration", "Secret"),
)
"""Kinds of the kustomizations' objects that are made as they are."""
WEBHOOKS = {"kueue": 9444, "appwrapper": 9443}
"""Ports of the webhooks; AppWrapper's is fixed. Each cluster has a network of its own."""
CERTIFICATES = {
    "kueue": "{folder}/kueue",
    # A program of controller-runtime looks for them under its folder of temporary files.
    "appwrapper": "{folder}/appwrapper/k8s-webhook-server/serving-certs",
}
"""Folders of the webhooks' certificates."""
KUEUE: Json = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "namespace": "kueue-system",
    "health": {"healthProbeBindAddress": "127.0.0.1:18083"},
    "metrics": {"bindAddress": "127.0.0.1:18443"},
    "webhook": {"port": WEBHOOKS["kueue"], "certDir": CERTIFICATES["kueue"]},
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"qps": 500, "burst": 1000},
    "internalCertManagement": {
        "enable": True,
        "webhookServiceName": "kueue-webhook-service",
        "webhookSecretName": "kueue-webhook-server-cert",
    },
    "integrations": {
        "frameworks": ["batch/job", "ray.io/rayjob", "ray.io/raycluster", "workload.codeflare.dev/appwrapper"]
    },
}
APPWRAPPER: Json = {
    "certManagement": {"certificateDir": CERTIFICATES["appwrapper"]},
    "controllerManager": {
        "health": {"bindAddress": "127.0.0.1:18081"},
        "metrics": {"bindAddress": "127.0.0.1:18444"},
        "leaderElection": False,
    },
    # This node has no GPUs to look after.
    "appwrapper": {"autopilot": {"injectAntiAffinities": False, "monitorNodes": False}},
}


def addition() -> Addition:
    """Return what a cluster with a node needs to have the operators; built and made if need be. Raises Missing."""
    programs = operators()
    return Addition(
        images=(str(image.make(programs)),),
        objects=_objects(),
        files={"kueue.json": KUEUE},
        commands=_commands(programs),
    )


def _commands(programs: Path) -> dict[str, list[str]]:
    environment = ["env", "KUBECONFIG={folder}/admin.kubeconfig", "TMPDIR={folder}/appwrapper"]
    return {
        "kuberay": [
            *(*environment, str(programs / "kuberay"), "--enable-leader-election=false"),
            *("--metrics-addr=0", "--health-probe-bind-address=127.0.0.1:18082"),
            # The API server reaches Services; this process, which is no Pod, has no DNS of the cluster.
            *("--use-kubernetes-proxy", "--qps=500", "--burst=1000"),
        ],
        "appwrapper": [*environment, "NAMESPACE=appwrapper-system", str(programs / "appwrapper")],
        "kueue": [
            *(*environment, str(programs / "kueue"), "--config={folder}/kueue.json"),
            "--feature-gates=VisibilityOnDemand=false",
        ],
        "certificates": [
            *(sys.executable, "-m", "tests.engines.operators.certificates", "{folder}/admin.kubeconfig"),
            *(f"{name}={folder}" for name, folder in CERTIFICATES.items()),
        ],
    }


def _objects() -> list[Json]:
    """The objects of the kustomizations, read once per machine."""
    kept = operators() / f"objects-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}.json"
    if not kept.exists():
        manifests: list[Json] = []
        for module, path in KUSTOMIZATIONS.items():
            command = [str(binaries() / "kubectl"), "kustomize", str(module_folder(OPERATORS, module) / path)]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            manifests += [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj["kind"] in KINDS]
        half = kept.with_suffix(".new")
        half.write_text(json.dumps([*map(_placed, manifests), *_beside()]))
        half.rename(kept)
    objects: list[Json] = json.loads(kept.read_text())
    return sorted(objects, key=lambda obj: obj["kind"] != "Namespace")


def _placed(obj: Json) -> Json:
    """The object with the ports of webhooks, which stand beside the name of a Service."""
    hooks = [hook["clientConfig"] for hook in obj.get("webhooks", ())]
    conversion = obj.get("spec", {}).get("conversion", {}).get("webhook", {})
    for config in (*hooks, *([conversion["clientConfig"]] if conversion else ())):
        config["service"]["port"] = WEBHOOKS[config["service"]["name"].removesuffix("-webhook-service")]
    return obj


def _beside() -> Iterator[Json]:
    """Services of the webhooks, and AppWrapper's settings.

    An API server calls the outer name of such a Service, with the hook's port: here a process of its own machine.
    """
    for name in WEBHOOKS:
        metadata = {"name": f"{name}-webhook-service", "namespace": f"{name}-system"}
        spec = {"type": "ExternalName", "externalName": "localhost"}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    metadata = {"name": "appwrapper-operator-config", "namespace": "appwrapper-system"}
    data = {"config.yaml": yaml.safe_dump(APPWRAPPER)}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
