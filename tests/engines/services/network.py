"""A network namespace for servers, which a link joins to the machine's own; a cut link loses every packet.

It needs root, and the programs `ip`, `nsenter` and `unshare`. The namespace has no route but that of the link, so that
nothing in it reaches any other machine. The kernel removes the link with the namespace, and the namespace with its
last process: the one that holds it ends with this process, however that ends, and so do the servers' guards.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network

from tests.engines.build import Missing
from tests.engines.services.location import Location

ADDRESSES = IPv4Network("198.18.0.0/15")
"""Set aside for tests of networks (RFC 2544); each link takes four, two of them for its ends."""
LINKS = ADDRESSES.num_addresses // 4
TRIES = 100
INNER = "inner"
PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""Debian's package of each program."""


class Network:
    """One namespace and its link. `silent` says how a cut is felt: packets are lost without a word, as where a filter
    drops them; else the machine notices that the host does not answer, and opens no connection to it ("no route to
    host"), as where the host is dead.
    """

    def __init__(self, holder: int, number: int, *, silent: bool) -> None:
        self.name = _name(number)
        self.outer, self.host = map(str, _ends(number))
        self.silent = silent
        self._enter = ("nsenter", f"--net=/proc/{holder}/ns/net")

    @property
    def place(self) -> Location:
        return Location(host=self.host, enter=self._enter)

    def cut(self) -> None:
        """Take the link down; packets of both sides are lost."""
        self._inside("ip", "link", "set", INNER, "down")

    def heal(self) -> None:
        """Take the link up again; those who have not given up send the lost packets again."""
        self._inside("ip", "link", "set", INNER, "up")

    def join(self) -> None:
        """Give both ends their addresses."""
        _do("ip", "address", "add", f"{self.outer}/30", "dev", self.name)
        _do("ip", "link", "set", self.name, "up")
        self._inside("ip", "link", "set", "lo", "up")
        self._inside("ip", "address", "add", f"{self.host}/30", "dev", INNER)
        self.heal()
        if self.silent:
            # The kernel never has to ask who has this address, so it does not notice that nobody answers.
            (link,) = json.loads(self._inside("ip", "-j", "link", "show", "dev", INNER))
            fixed = ("lladdr", link["address"], "nud", "permanent")
            _do("ip", "neighbour", "replace", self.host, *fixed, "dev", self.name)

    def _inside(self, *command: str) -> str:
        return _do(*self._enter, *command)


def require() -> None:
    """Raise Missing where no namespace can be made."""
    if os.geteuid():
        raise Missing("a network namespace needs root")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise Missing(f"{program} is not installed (Debian's package {package})")
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise Missing(f"no network namespace can be made: {tried.stderr.strip()}")


@contextmanager
def network(*, silent: bool) -> Iterator[Network]:
    """A namespace and its link. Raises Missing."""
    require()
    # It ends when this process closes its input, or ends. The line tells that the namespace is there.
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with link(holder.pid, silent=silent) as made:
            yield made
    finally:
        holder.communicate()


@contextmanager
def link(holder: int, *, silent: bool) -> Iterator[Network]:
    """A link that joins the network of a process with the machine's own. Raises Missing."""
    made = Network(holder, _link(holder), silent=silent)
    try:
        made.join()
        yield made
    finally:
        _do("ip", "link", "delete", made.name)


def _link(holder: int) -> int:
    """Make a link from here into the holder's namespace; return its number. Runs side by side each find a free one:
    a name, and with it the addresses, can be taken once.
    """
    refused = ""
    for number in random.sample(range(LINKS), TRIES):
        ends = ["ip", "link", "add", _name(number), "type", "veth", "peer", "name", INNER]
        done = subprocess.run([*ends, "netns", str(holder)], capture_output=True, text=True, check=False)
        if not done.returncode:
            return number
        refused = done.stderr.strip()
        if "File exists" not in refused:
            break
    raise Missing(f"no link into a network namespace can be made: {refused}")


def _name(number: int) -> str:
    return f"steelyard-{number}"


def _ends(number: int) -> tuple[IPv4Address, IPv4Address]:
    return ADDRESSES[4 * number + 1], ADDRESSES[4 * number + 2]


def _do(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
