"""Folder of the namespaces' own hosts files: beside the shared one, for names without their namespace.

The names process keeps them (`run.py`); the kubelet shows each Pod the one of its namespace as /etc/hosts.
"""

import contextlib
import os
from pathlib import Path


def folder_of(hosts: Path) -> Path:
    return hosts.with_name(f"{hosts.name}.d")


def namespace_file(hosts: Path, namespace: str) -> Path:
    """The namespace's hosts file; one that is not there yet begins as the shared one is."""
    path = folder_of(hosts) / namespace
    if path.exists() or not hosts.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    making = path.with_name(f".{namespace}.{os.getpid()}.{os.urandom(4).hex()}")
    making.write_bytes(hosts.read_bytes())
    with contextlib.suppress(FileExistsError):  # whoever was quicker has made the same
        os.link(making, path)
    making.unlink()
    return path
