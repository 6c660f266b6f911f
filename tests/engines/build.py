"""Builds the real Kubernetes from Go modules, once per machine; later calls find the binaries.

`python -m tests.engines.build` builds the control plane and prints the folder; with `--node` also what a node needs.
The module files beside this one name the versions.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).parent / "kubernetes"
HELM = Path(__file__).parent / "helm"
CLIENTS = Path(__file__).parent / "clients" / "go"
COREDNS = Path(__file__).parent / "coredns"
OPERATORS = Path(__file__).parent / "operators" / "go"
COMMANDS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
NODE_COMMANDS = {
    name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-scheduler", "kubelet", "kube-proxy")
}
"""Commands that a cluster with a node needs beside them."""
OPERATOR_COMMANDS = {
    "kuberay": "github.com/ray-project/kuberay/ray-operator",
    "appwrapper": "github.com/project-codeflare/appwrapper/cmd",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue",
}


class Missing(Exception):
    """The toolchain is not on this machine."""


def version() -> str:
    return _required(MODULE, "k8s.io/kubernetes")


def _required(module: Path, name: str) -> str:
    match = re.search(rf"{re.escape(name)} v([\d.]+)", (module / "go.mod").read_text())
    assert match
    return match[1]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "steelyard" / "engines" / f"kubernetes-{version()}"


def helm() -> Path:
    """The program helm, built if need be. Missing without Go."""
    return _program(HELM, "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm")


def built_helm() -> Path | None:
    """The program helm, where it is built already."""
    program = _place(HELM, "helm.sh/helm/v3")
    return program if program.exists() else None


def coredns() -> Path:
    """The program coredns, built if need be. Missing without Go."""
    return _program(COREDNS, "github.com/coredns/coredns", ".")


def go_clients() -> Path:
    """The folder with the client programs in Go: a newer kubectl, client-go, controller-runtime. Missing without Go."""
    sources = sorted(file for file in CLIENTS.rglob("*") if file.is_file())
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    folder = cache().parent / f"go-clients-{digest}"
    number = f"1{_required(CLIENTS, 'k8s.io/kubectl').removeprefix('0')}"
    for name in ("kubectl", "informers", "controller"):
        if (folder / name).exists():
            continue
        _require_go()
        folder.mkdir(parents=True, exist_ok=True)
        print(f"building {name} of Kubernetes {number}'s libraries ...", flush=True)
        _build(f"./{name}", folder / name, CLIENTS, number if name == "kubectl" else "")
    return folder


def binaries() -> Path:
    """The folder with the control plane, built if need be (ten minutes on two idle cores). Missing without Go."""
    return _commands(COMMANDS)


def node_binaries() -> Path:
    """The same folder with what a node needs, built if need be (four minutes more). Missing without Go."""
    return _commands(COMMANDS | NODE_COMMANDS)


def operators() -> Path:
    """The folder with KubeRay, AppWrapper and Kueue, built if need be. Missing without Go.

    The build takes seven minutes of processor time.
    """
    digest = hashlib.sha256((OPERATORS / "go.sum").read_bytes()).hexdigest()[:12]
    folder = cache().parent / f"operators-{digest}"
    for name, package in OPERATOR_COMMANDS.items():
        if not (folder / name).exists():
            _require_go()
            folder.mkdir(parents=True, exist_ok=True)
            print(f"building {name} of {package} ...", flush=True)
            _build(package, folder / name, OPERATORS)
    return folder


def module_folder(module: Path, name: str) -> Path:
    """The folder of a module's files, in the version that `module` requires, loaded if need be."""
    _require_go()
    command = ["go", "mod", "download", "-json", name]
    answer = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True).stdout
    return Path(json.loads(answer)["Dir"])


def _commands(packages: dict[str, str]) -> Path:
    folder = cache() / "bin"
    wanting = [name for name in packages if not (folder / name).exists()]
    if not wanting:
        return folder
    _require_go()
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanting:
        began = time.monotonic()
        print(f"building {name} of Kubernetes {version()} ...", flush=True)
        _build(packages[name], folder / name, MODULE, "" if name == "etcd" else version())
        print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)
    return folder


def _program(module: Path, required: str, package: str) -> Path:
    """One program that has a module of its own, of the version that this module requires."""
    program = _place(module, required)
    if not program.exists():
        _require_go()
        program.parent.mkdir(parents=True, exist_ok=True)
        print(f"building {program.parent.name} ...", flush=True)
        _build(package, program, module)
    return program


def _place(module: Path, required: str) -> Path:
    return cache().parent / f"{module.name}-{_required(module, required)}" / module.name


def _require_go() -> None:
    if not shutil.which("go"):
        raise Missing("Go is not installed")


def _build(package: str, target: Path, module: Path, number: str = "") -> None:
    # The version of Kubernetes is linked in: clients and the controller manager compare it.
    component = "k8s.io/component-base/version"
    flags = {
        "gitVersion": f"v{number}",
        "gitMajor": number.partition(".")[0],
        "gitMinor": number.partition(".")[2].partition(".")[0],
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    stamps = "".join(f" -X {component}.{k}={v}" for k, v in flags.items()) if number else ""
    half_done = target.with_suffix(".new")
    with one_at_a_time(target):
        if target.exists():  # another run has built it meanwhile
            return
        subprocess.run(
            [
                "go",
                "build",
                "-p",
                "2",
                "-trimpath",
                "-ldflags",
                f"-s -w{stamps}",
                "-o",
                str(half_done),
                package,
            ],
            cwd=module,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"},
            check=True,
        )
        half_done.rename(target)


def go_program(name: str, module: str, version: str, *tags: str) -> Path:
    """Return a program of a Go module, installed once per machine with these tags of the build. Raises Missing
    without Go.
    """
    program = cache().parent / f"{name}-{version}" / name
    if program.exists():
        return program
    if not shutil.which("go"):
        raise Missing("Go is not installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    print(f"building {name} {version} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as target:
        flags = {"GOBIN": target, "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false"}
        command = ["go", "install", "-ldflags=-s -w", f"-tags={','.join(tags)}", f"{module}@{version}"]
        subprocess.run(command, env=os.environ | flags, check=True)
        Path(target, name).rename(program)
    return program


@contextmanager
def one_at_a_time(target: Path) -> Iterator[None]:
    """Hold the target's lock: of several suites and runs that want it, one makes it, and the others wait."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(node_binaries() if "--node" in sys.argv else binaries())
    except Missing as missing:
        sys.exit(f"{missing}: the real Kubernetes cannot be built")
