"""Folder of the namespaces' own hosts files: in addition to the shared one, for names without their namespace.

The names process keeps them (`run.py`); the kubelet shows each Pod the one of its namespace as /etc/hosts. A Pod with
`hostAliases` has one of its own, with these lines as well.
"""

import contextlib
import os
from pathlib import Path

from steelyard_common.types import Json, sequence


def hosts_folder(hosts: Path) -> Path:
    return hosts.with_name(f"{hosts.name}.d")


def file_name(pod: Json) -> str:
    """The name of the Pod's hosts file in the folder: that of its namespace, unless it has aliases."""
    namespace = str(pod["metadata"]["namespace"])
    return f"{namespace}@{pod['metadata']['uid']}" if aliases(pod) else namespace


def aliases(pod: Json) -> list[tuple[str, tuple[str, ...]]]:
    """The addresses and names of the Pod's `hostAliases`."""
    return [
        (str(alias["ip"]), (str(name),))
        for alias in sequence(pod["spec"], "hostAliases")
        for name in sequence(alias, "hostnames")
    ]


def namespace_file(hosts: Path, namespace: str) -> Path:
    """The hosts file of a namespace or a Pod; one that is not there yet begins as the shared one is."""
    path = hosts_folder(hosts) / namespace
    if path.exists() or not hosts.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    making = path.with_name(f".{namespace}.{os.getpid()}.{os.urandom(4).hex()}")
    making.write_bytes(hosts.read_bytes())
    with contextlib.suppress(FileExistsError):  # a quicker process has made the same
        os.link(making, path)
    making.unlink()
    return path
