"""The chart's objects as `kubectl apply -k deploy/kustomize` takes them: the shape `standalone` with its defaults, and
secrets that the user gives. `python -m deploy.generate` writes them.
"""

import json
import subprocess
from pathlib import Path

import yaml

from steelyard_common.types import Json

NAMESPACE = RELEASE = "steelyard"
KUBERNETES = "1.30.0"
"""The earliest that the chart is for."""
SECRET = "steelyard-secrets"
"""The Secret that deploy/kustomize/kustomization.yaml makes of secrets.env."""
VALUES: Json = {
    "administrator": {"existingSecret": SECRET},
    "secretKeys": {"existingSecret": SECRET},
    "storageServer": {"existingSecret": SECRET},
    "customResourceDefinitions": False,
}
"""Values of the chart; the definitions are those of deploy/chart/files/crds."""
_NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "restricted"}
_LABELS = {"app.kubernetes.io/managed-by": "kustomize"}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that a change of one line is a change of one line."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def objects(helm: Path, chart: Path) -> str:
    """Return the objects as YAML, the namespace before what is in it.

    They are without the labels and annotations that only Helm reads. Written anew, their form does not depend on the
    version of Helm.
    """
    command = (
        *(helm, "template", RELEASE, chart, "--namespace", NAMESPACE, "--no-hooks", "--values", "-"),
        *("--kube-version", KUBERNETES),
    )
    done = subprocess.run(command, input=json.dumps(VALUES), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    namespace: Json = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": _NAMESPACE_LABELS | _LABELS},
    }
    made = [obj for obj in yaml.safe_load_all(done.stdout) if obj]
    for obj in made:
        metadata = obj["metadata"]
        for field, more in (("labels", _LABELS), ("annotations", {})):
            texts = metadata.pop(field, {})
            kept = {key: text for key, text in texts.items() if not key.startswith("helm.sh/")} | more
            if kept:
                metadata[field] = kept
    return yaml.dump_all([namespace, *made], Dumper=_Dumper, sort_keys=False, width=116)


def definitions(crds: Path) -> str:
    """Return the list of the custom resource definitions, as kustomize reads it.

    Its name has no `.yaml`, so that `kubectl apply -f deploy/chart/files/crds` does not take it for an object.
    """
    names = "".join(f"- {path.name}\n" for path in sorted(crds.glob("*.yaml")))
    return f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{names}"
