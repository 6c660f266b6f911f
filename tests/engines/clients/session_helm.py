"""The session by helm: a chart with hooks is installed, upgraded, rolled back and removed."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.engines.clients.session import IMAGE, check

CHART = "apiVersion: v2\nname: session\nversion: 0.1.0\n"
VALUES = "colour: red\npods: 0\n"
OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {colour: {{ .Values.colour | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.pods }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}, annotations: {colour: {{ .Values.colour }}}}
    spec: {containers: [{name: main, image: IMAGE, command: [sleep, "600"]}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80}]}
""".replace("IMAGE", IMAGE)
# Its Job needs Pods; a ConfigMap is done once it is there.
HOOK = """
{{- if .Values.pods }}
apiVersion: batch/v1
kind: Job
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: IMAGE, command: ["true"]}]}}
{{- else }}
apiVersion: v1
kind: ConfigMap
{{- end }}
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback,post-delete
    helm.sh/hook-delete-policy: before-hook-creation
""".replace("IMAGE", IMAGE)


class Helm:
    """helm and kubectl on one namespace."""

    def __init__(self, programs: Path, kubectl: Path, kubeconfig: str, namespace: str, home: Path) -> None:
        self._options = ["--kubeconfig", kubeconfig, "--namespace", namespace]
        self._helm, self._kubectl = str(programs), str(kubectl)
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    def __call__(self, *words: str) -> str:
        return self._run(self._helm, *words)

    def colour(self) -> str:
        content: dict[str, Any] = json.loads(
            self._run(self._kubectl, "get", "configmap", "one", "-o", "json")
        )
        return str(content["data"]["colour"])

    def left(self) -> list[str]:
        return self._run(self._kubectl, "get", "deployments,services", "-o", "name").split()

    def _run(self, program: str, *words: str) -> str:
        command = [program, *self._options, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self._environment, timeout=600, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("helm", type=Path)
    parser.add_argument("kubectl", type=Path)
    parser.add_argument("kubeconfig")
    parser.add_argument("namespace")
    parser.add_argument("--pods", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "chart"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text(CHART)
        (chart / "values.yaml").write_text(VALUES)
        (chart / "templates" / "objects.yaml").write_text(OBJECTS)
        (chart / "templates" / "hook.yaml").write_text(HOOK)
        helm = Helm(asked.helm, asked.kubectl, asked.kubeconfig, asked.namespace, Path(folder))
        waiting = ("--wait", "--timeout=300s")
        pods = ("--set", f"pods={int(asked.pods)}")
        helm("install", "one", str(chart), "--create-namespace", *pods, *waiting)
        check(helm.colour(), "red")
        helm("upgrade", "one", str(chart), "--set", "colour=green", *pods, *waiting)
        check(helm.colour(), "green")
        helm("rollback", "one", "1", *waiting)
        check(helm.colour(), "red")
        history = json.loads(helm("history", "one", "-o", "json"))
        check([entry["status"] for entry in history], ["superseded", "superseded", "deployed"])
        helm("upgrade", "--install", "two", str(chart), *pods, "--dry-run=server")
        check([release["name"] for release in json.loads(helm("list", "-o", "json"))], ["one"])
        helm("uninstall", "one", "--wait")
        check([name for name in helm.left() if not name.endswith("/kubernetes")], [])


if __name__ == "__main__":
    main()
