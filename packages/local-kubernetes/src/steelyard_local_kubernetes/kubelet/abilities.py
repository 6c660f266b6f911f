"""Abilities that this machine's kernel gives to Pods, read once when the kubelet starts, and by `up` for its
messages.
"""

import asyncio
import os
import subprocess
from dataclasses import dataclass

from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.shim_processes import program


@dataclass(frozen=True)
class Abilities:
    """Abilities that containers can have."""

    mounts: bool  # a view of the files
    binds: bool  # answers to their calls of bind
    pids: bool  # process numbers


async def abilities(config: KubeletConfig) -> Abilities:
    """Return the abilities on this machine, as this user. Process numbers need mounts: /proc has to show
    them.
    """
    tests = {
        "mounts": ("probe_main", config.mounts == "auto"),
        "binds": ("probe_binds_main", config.binds == "auto"),
        "pids": ("probe_pids_main", config.pids == "auto" and config.mounts == "auto"),
    }
    results = await asyncio.gather(
        *(asyncio.to_thread(_succeeds, config, entry, enabled=enabled) for entry, enabled in tests.values())
    )
    can = dict(zip(tests, results, strict=True))
    return Abilities(can["mounts"], can["binds"], can["pids"] and can["mounts"])


def _succeeds(config: KubeletConfig, entry: str, *, enabled: bool) -> bool:
    command = [config.python, "-I", "-S", "-c", program(entry)]
    environment = {"PATH": os.defpath}
    return (
        enabled and subprocess.run(command, capture_output=True, check=False, env=environment).returncode == 0
    )
