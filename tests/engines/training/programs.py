"""Programs that stand for those of the images of the published tests: `python programs.py NAME ARGUMENT…`.

The replicas of a job meet as their framework's would, by the variables that the operator gave them, and end. Nothing is
trained: the tests are of how they find each other. Nothing here needs a package.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

SECONDS = 60
ALONE = ("/horovod/", "/var/tf_mnist/")
"""Folders of programs that meet nobody: mpirun starts the ones, and the others are a TFJob's only replica."""


@dataclass(frozen=True)
class Meeting:
    """Address of the first replica, own rank, and the number of all."""

    host: str
    port: int
    rank: int
    size: int


def meeting() -> Meeting:
    """Read the framework's variables. KeyError where there are none."""
    env = os.environ
    if "TF_CONFIG" in env:
        tf_config = json.loads(env["TF_CONFIG"])
        workers = tf_config["cluster"]["worker"]
        host, port = workers[0].rsplit(":", 1)
        return Meeting(host, int(port), tf_config["task"]["index"], len(workers))
    if "COORDINATOR_ADDRESS" in env:
        rank, size = int(env["PROCESS_ID"]), int(env["NUM_PROCESSES"])
        return Meeting(env["COORDINATOR_ADDRESS"], int(env["COORDINATOR_PORT"]), rank, size)
    if "PADDLE_MASTER" in env:
        host, port = env["PADDLE_MASTER"].rsplit(":", 1)
        # Its launcher serves where the address is the machine's own; ranks are given out there.
        rank = 0 if host == socket.gethostbyname(socket.gethostname()) else 1
        return Meeting(host, int(port), rank, int(env["PADDLE_NNODES"]))
    return Meeting(env["MASTER_ADDR"], int(env["MASTER_PORT"]), int(env["RANK"]), int(env["WORLD_SIZE"]))


def meet(place: Meeting) -> None:
    """Return once all replicas have been at the first one's address."""
    if place.rank:
        with connect(place) as connection:
            assert connection.recv(16) == b"all are there"
    else:
        with socket.create_server(("0.0.0.0", place.port)) as server:
            server.settimeout(SECONDS)
            connections = [server.accept()[0] for _ in range(place.size - 1)]
            for connection in connections:
                connection.sendall(b"all are there")
                connection.close()
    print(f"rank {place.rank} of {place.size} met the others", flush=True)


def connect(place: Meeting) -> socket.socket:
    until = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((place.host, place.port), timeout=SECONDS)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def mpirun(arguments: Sequence[str]) -> None:
    """Run the program on each host of the file, through the agent, as Open MPI does."""
    hostfile, agent = map(
        os.environ.__getitem__, ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_agent")
    )
    with open(hostfile) as lines:
        hosts = [line.split()[0] for line in lines]
    program = arguments[arguments.index("python") :]
    for host in hosts:
        subprocess.run([agent, host, *program], check=True)


def main(name: str, *arguments: str) -> None:
    match name:
        case "mpirun":
            mpirun(arguments)
        case "torchrun":
            meet(meeting())
            subprocess.run([sys.executable, *arguments], check=True)
        case "python" if any(argument.startswith(ALONE) for argument in arguments):
            print(f"alone on {socket.gethostname()}", flush=True)
        case _:
            meet(meeting())


if __name__ == "__main__":
    main(*sys.argv[1:])
