"""Builds the real Kubernetes control plane from Go modules, once per machine; later calls find the binaries.

`python -m tests.engines.build` prints the folder. The module file beside this one names the version.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

MODULE = Path(__file__).parent / "kubernetes"
HELM = Path(__file__).parent / "helm"
COMMANDS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


class Missing(Exception):
    """The toolchain is not on this machine."""


def version() -> str:
    match = re.search(r"k8s\.io/kubernetes v([\d.]+)", (MODULE / "go.mod").read_text())
    assert match
    return match[1]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "steelyard" / "engines" / f"kubernetes-{version()}"


def helm() -> Path:
    """The program helm, built if need be. Missing without Go."""
    match = re.search(r"helm\.sh/helm/v3 v([\d.]+)", (HELM / "go.mod").read_text())
    assert match
    program = cache().parent / f"helm-{match[1]}" / "helm"
    if not program.exists():
        if not shutil.which("go"):
            raise Missing("Go is not installed")
        program.parent.mkdir(parents=True, exist_ok=True)
        print(f"building helm {match[1]} ...", flush=True)
        _build("helm.sh/helm/v3/cmd/helm", program, HELM, stamped=False)
    return program


def binaries() -> Path:
    """The folder with the binaries, built if need be (ten minutes on two idle cores). Missing without Go."""
    folder = cache() / "bin"
    wanting = [name for name in COMMANDS if not (folder / name).exists()]
    if not wanting:
        return folder
    if not shutil.which("go"):
        raise Missing("Go is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanting:
        began = time.monotonic()
        print(f"building {name} of Kubernetes {version()} ...", flush=True)
        _build(COMMANDS[name], folder / name, MODULE, stamped=name != "etcd")
        print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)
    return folder


def _build(package: str, target: Path, module: Path, *, stamped: bool) -> None:
    # The version is linked in: clients and the controller manager compare it.
    component = "k8s.io/component-base/version"
    number = version()
    flags = {
        "gitVersion": f"v{number}",
        "gitMajor": number.split(".")[0],
        "gitMinor": number.split(".")[1],
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    stamps = "".join(f" -X {component}.{k}={v}" for k, v in flags.items()) if stamped else ""
    half_done = target.with_suffix(".new")
    subprocess.run(
        ["go", "build", "-p", "2", "-trimpath", "-ldflags", f"-s -w{stamps}", "-o", str(half_done), package],
        cwd=module,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"},
        check=True,
    )
    half_done.rename(target)


if __name__ == "__main__":
    try:
        print(binaries())
    except Missing as missing:
        sys.exit(f"{missing}: the real Kubernetes cannot be built")
