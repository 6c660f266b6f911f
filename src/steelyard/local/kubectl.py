"""Substitute for `kubectl` in the launchers of MPI jobs on one machine: `exec`, and nothing else.

The image that brings it is this module, called with the kubeconfig (`images.py`): it waits until the workers
run, and leaves a small program in the launcher's volume.
"""

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlencode

import orjson

from steelyard_common.types import sequence
from steelyard_kube.errors import ApiError
from steelyard_kube.kubeconfig import Access, load
from steelyard_kube.pods import read_phase
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.shim import OWN_PYTHON

HOSTS = Path("/etc/mpi/hostfile")
PATIENCE = 600.0  # seconds until the workers run
PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _STATUS = 1, 2, 3


def deliver(kubeconfig: Path, folder: Path, namespace: str, hosts: list[str]) -> None:
    """Write the program once every host runs."""
    asyncio.run(_all_running(kubeconfig, namespace, hosts))
    program = folder / "kubectl"
    # By a variable of the launcher: its volume is part of the state folder, which names no installation.
    words = f'exec "${OWN_PYTHON}" -I -m steelyard.local.kubectl run {kubeconfig} {namespace}'
    program.write_text(f'#!/bin/sh\n{words} "$@"\n')
    program.chmod(0o755)


async def _all_running(kubeconfig: Path, namespace: str, hosts: list[str]) -> None:
    # Only here: the supervisor needs the image's name of this module, and no HTTP client.
    from steelyard_kube.client import connect

    cluster = await connect(kubeconfig)
    waiting = list(hosts)
    try:
        async with asyncio.timeout(PATIENCE):
            while waiting:
                try:
                    pod = await cluster.get(PODS, waiting[0], namespace)
                except ApiError:
                    pod = {}
                if read_phase(pod) == "Running":
                    waiting.pop(0)
                else:
                    await asyncio.sleep(0.1)
    finally:
        await cluster.close()


def parse_exec(arguments: list[str]) -> tuple[str, str, list[str]]:
    """Pod, container and command of `exec POD [--container NAME] -- COMMAND...`."""
    if arguments[:1] != ["exec"] or "--" not in arguments:
        raise SystemExit("usage: kubectl exec POD [--container NAME] -- COMMAND...")
    at = arguments.index("--")
    words, command = arguments[1:at], arguments[at + 1 :]
    container = ""
    for option in ("-c", "--container"):
        if option in words[:-1]:
            place = words.index(option)
            container = words[place + 1]
            words = words[:place] + words[place + 2 :]
    pods = [word for word in words if not word.startswith("-")]
    if len(pods) != 1 or not command:
        raise SystemExit("usage: kubectl exec POD [--container NAME] -- COMMAND...")
    return pods[0], container, command


async def run(access: Access, namespace: str, arguments: list[str]) -> int:
    """The command's exit status; its streams come out of ours."""
    import aiohttp

    pod, container, command = parse_exec(arguments)
    query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    query += [("container", container)] if container else []
    url = f"{access.url.rstrip('/')}{PODS.path(namespace, pod, 'exec')}?{urlencode(query)}"
    headers = {"Authorization": f"Bearer {access.token()}"} if access.token else {}
    from steelyard_common.connections import TrackingConnector

    connector = TrackingConnector(ssl=access.tls or True)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            socket = await session.ws_connect(url, protocols=[PROTOCOL], headers=headers, max_msg_size=0)
        except aiohttp.ClientError as error:
            print(f"error: {pod}: {error}", file=sys.stderr)
            return 1
        async for message in socket:
            if message.type == aiohttp.WSMsgType.BINARY and message.data:
                channel, content = message.data[0], message.data[1:]
                if channel == _STATUS and content:
                    return exit_status(content)
                if channel in (_STDOUT, _STDERR):
                    os.write(channel, content)
    print(f"error: {pod}: the connection ended before the command", file=sys.stderr)
    return 1


def exit_status(content: bytes) -> int:
    status = orjson.loads(content)
    if status.get("status") == "Success":
        return 0
    causes = sequence(status, "details", "causes")
    return next((int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"), 1)


def main(arguments: list[str]) -> int:
    """`deliver KUBECONFIG`, in the init container; `run KUBECONFIG NAMESPACE exec ...`, in the launcher."""
    match arguments:
        case ["deliver", kubeconfig]:
            hosts = [line.split()[0] for line in HOSTS.read_text().splitlines() if line.strip()]
            deliver(Path(kubeconfig), Path(os.environ["TARGET_DIR"]), os.environ["NAMESPACE"], hosts)
            return 0
        case ["run", kubeconfig, namespace, *rest]:
            return asyncio.run(run(load(Path(kubeconfig)), namespace, rest))
    raise SystemExit("usage: deliver KUBECONFIG | run KUBECONFIG NAMESPACE exec ...")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
