"""The session by kubectl, of whatever version: create, apply, patch, list, watch, logs, exec, scale, delete."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from tests.engines.clients.session import (
    LIMIT,
    PAGES,
    SECONDS,
    check,
    config_map,
    deployment,
    eventually,
    pod,
)


class Kubectl:
    """One kubectl on one namespace."""

    def __init__(self, program: Path, kubeconfig: str, namespace: str, cache: Path) -> None:
        options = ["--kubeconfig", kubeconfig, "--cache-dir", str(cache), "--namespace", namespace]
        self.command = [str(program), *options]

    def __call__(self, *words: str, given: object = None, ok: bool = True) -> str:
        text = None if given is None else json.dumps(given)
        done = subprocess.run(
            [*self.command, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert (done.returncode == 0) is ok, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stderr


def steps(kubectl: Kubectl, namespace: str, *, pods: bool) -> None:
    kubectl("create", "namespace", namespace)
    eventually(lambda: "default" in kubectl("get", "serviceaccounts", "-o", "name"), "the default account")
    for number in range(PAGES):
        kubectl("create", "configmap", f"page-{number}", "--from-literal=a=b")
    names = [f"configmap/page-{number}" for number in range(PAGES)]
    listed = kubectl("get", "configmaps", f"--chunk-size={LIMIT}", "-o", "name").split()
    check([name for name in listed if "page" in name], names)
    watching = subprocess.Popen(
        [*kubectl.command, "get", "configmap", "page-0", "--watch", "-o", "json", "--output-watch-events"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    line = watching.stdout.readline()
    kubectl("patch", "configmap", "page-0", "-p", '{"data":{"c":"d"}}')
    kubectl("delete", "configmap", "page-0")
    while "DELETED" not in line:
        line = watching.stdout.readline()
        assert line, "the watch ended"
    watching.kill()
    watching.communicate()
    applied = config_map("applied", a="b")
    check(kubectl("apply", "-f", "-", given=applied), "configmap/applied created\n")
    check(kubectl("apply", "-f", "-", given=applied), "configmap/applied unchanged\n")
    changed = config_map("applied", a="c")
    assert "-  a: b\n+  a: c" in _diff(kubectl, changed)
    server = ("apply", "--server-side", "-f", "-")
    assert "conflict" in kubectl(
        *server, "--field-manager=other", given=config_map("applied", a="x"), ok=False
    )
    kubectl(*server, "--field-manager=other", "--force-conflicts", given=changed)
    check(json.loads(kubectl("get", "configmap", "applied", "-o", "json"))["data"], {"a": "c"})
    kubectl("apply", "-f", "-", given=deployment("d"))
    kubectl("scale", "deployment/d", "--replicas=1")
    eventually(
        lambda: kubectl("get", "deployment", "d", "-o", "jsonpath={.status.replicas}") == "1", "a replica"
    )
    if pods:
        kubectl("rollout", "status", "deployment/d", f"--timeout={SECONDS:.0f}s")
        kubectl("apply", "-f", "-", given=pod("p", "echo hello; sleep 600"))
        kubectl("wait", "--for=condition=Ready", "pod/p", f"--timeout={SECONDS:.0f}s")
        eventually(lambda: kubectl("logs", "p") == "hello\n", "its log")
        check(kubectl("exec", "p", "--", "echo", "there"), "there\n")
    kubectl("label", "deployment", "d", "e=f")
    kubectl("annotate", "deployment", "d", "e=f")
    kubectl("set", "image", "deployment/d", "main=localhost/other")
    assert "Replicas:" in kubectl("describe", "deployment", "d")
    kubectl("get", "all", "-o", "wide")
    assert "KIND:       Deployment" in kubectl("explain", "deployment.spec")
    check(kubectl("auth", "can-i", "delete", "pods"), "yes\n")
    kubectl("delete", "deployment", "d", "--wait")
    kubectl("delete", "namespace", namespace, "--wait=false")


def _diff(kubectl: Kubectl, manifest: object) -> str:
    done = subprocess.run(
        [*kubectl.command, "diff", "-f", "-"],
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubectl", type=Path)
    parser.add_argument("kubeconfig")
    parser.add_argument("namespace")
    parser.add_argument("--pods", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        kubectl = Kubectl(asked.kubectl, asked.kubeconfig, asked.namespace, Path(cache))
        steps(kubectl, asked.namespace, pods=asked.pods)


if __name__ == "__main__":
    main()
