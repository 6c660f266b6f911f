"""The line between the supervisor and a child: one socket, so that each sees at once when the other is gone.

The child says `ready` once it answers. The supervisor says `stop` for an orderly end, Pods included. The end of the
line means that the supervisor died: the child ends too, and leaves the Pods for the next one.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

READY, STOP = b"ready\n", b"stop\n"


@dataclass(frozen=True)
class Orders:
    """Orders that a process has received: to stop, and whether its Pods stop with it."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    end_pods: asyncio.Event = field(default_factory=asyncio.Event)
    lines: list[socket.socket] = field(default_factory=list)
    """The line, if there is one: open for as long as the orders are kept, for a program that takes its place."""


def take_orders(line: int | None, orders: Orders) -> Callable[[], None]:
    """Follow the supervisor's line, if there is one, and signals, in a child's loop. Return the function that
    reports `ready`.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, orders.stop.set)
    if line is None:
        return lambda: None
    os.set_inheritable(line, False)  # a Pod that held the line would keep it from ending
    end = socket.socket(fileno=line)
    end.setblocking(False)
    orders.lines.append(end)

    def read_orders() -> None:
        try:
            said = end.recv(64)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            said = b""
        if STOP.strip() in said:
            orders.end_pods.set()
        if not said or orders.end_pods.is_set():
            loop.remove_reader(end)
            orders.stop.set()

    def say_ready() -> None:
        try:
            end.send(READY)
        except OSError:
            orders.stop.set()

    loop.add_reader(end, read_orders)
    return say_ready
