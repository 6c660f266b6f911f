"""Callers of running containers: their input, their terminal, and what they see of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.apiserver.streams import attaching
from steelyard_local_kubernetes.apiserver.streams.attaching import Attachment
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
    termination,
)

SHELL = 'while read line; do echo "got $line"; done; echo end >&2'


class Call:
    """One caller of a container."""

    def __init__(self, machine: Machine, pod: Json, *, stdin: bool = True) -> None:
        folder = machine.folder(pod)
        run = folder.run("main")
        assert run is not None
        self.attachment = Attachment(folder, "main", run, stdin, frozenset((1, 2)))
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._received: dict[int, bytes] = {}
        self._changed = asyncio.Event()
        self.set_up = asyncio.Event()
        self.task = asyncio.create_task(self.attachment.run(None, self._sent(), self._receive))

    async def _sent(self) -> AsyncIterator[bytes]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def _receive(self, message: bytes) -> None:
        self._received[message[0]] = self._received.get(message[0], b"") + message[1:]
        self._changed.set()
        self.set_up.set()  # the first message says so

    def send(self, content: bytes, channel: int = 0) -> None:
        self._messages.put_nowait(bytes([channel]) + content)

    def end_input(self) -> None:
        self.send(b"\0", channel=255)

    async def hang_up(self) -> None:
        self._messages.put_nowait(None)
        await self.task

    async def until(self, text: bytes, channel: int = 1) -> bytes:
        async with asyncio.timeout(60):
            while text not in self._received.get(channel, b""):
                self._changed.clear()
                await self._changed.wait()
        return self._received[channel]

    async def status(self) -> Json:
        async with asyncio.timeout(60):
            await self.task
        status: Json = orjson.loads(self._received[3])
        return status


async def start(machine: Machine, script: str, **fields: Any) -> Json:
    await machine.cluster.create(PODS, make_pod(make_container(script, **fields)))
    return await machine.until(is_running)


async def test_input_and_both_outputs(machine: Machine) -> None:
    pod = await start(machine, SHELL, stdin=True, stdinOnce=True)
    call = Call(machine, pod)
    call.send(b"a\nb\n")
    assert await call.until(b"got b\n") == b"got a\ngot b\n"
    call.end_input()
    assert await call.until(b"end\n", channel=2) == b"end\n"
    assert await call.status() == {"metadata": {}, "status": "Success"}
    ended = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert termination(ended)["exitCode"] == 0
    # The log has it all, whether anybody was there or not.
    assert machine.log(pod) == ["got a", "got b", "end"]


async def test_without_once_input_has_no_end(machine: Machine) -> None:
    pod = await start(machine, SHELL, stdin=True)
    first = Call(machine, pod)
    first.send(b"a\n")
    await first.until(b"got a\n")
    first.end_input()
    await first.hang_up()
    second = Call(machine, pod)
    second.send(b"b\n")
    assert await second.until(b"got b\n") == b"got b\n"
    await second.hang_up()
    assert is_running(await machine.pod())


async def test_a_caller_that_goes_ends_the_input_that_is_given_once(machine: Machine) -> None:
    pod = await start(machine, SHELL, stdin=True, stdinOnce=True)
    watching = Call(machine, pod, stdin=False)
    watching.send(b"not mine\n")
    typing = Call(machine, pod)
    typing.send(b"a\n")
    await typing.until(b"got a\n")
    await watching.until(b"got a\n")
    await typing.hang_up()
    await watching.until(b"end\n", channel=2)
    await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod) == ["got a", "end"]


async def test_a_terminal(machine: Machine) -> None:
    script = "read line; stty size; tty; test -t 2 && echo is a terminal; exit 5"
    pod = await start(machine, script, stdin=True, tty=True)
    call = Call(machine, pod)
    call.send(b'{"Width": 101, "Height": 7}', channel=4)
    call.send(b'{"Width": "x"}', channel=4)
    call.send(b"go\n")
    said = await call.until(b"is a terminal")
    assert b"7 101" in said
    assert b"/dev/pts/" in said
    assert (await call.status())["status"] == "Success"
    assert termination(await machine.until(lambda pod: phase(pod) == "Failed"))["exitCode"] == 5


async def test_ctrl_c_reaches_the_program(machine: Machine) -> None:
    script = "trap 'echo interrupted; exit 3' INT; read line; echo ready; while :; do sleep 0.1; done"
    pod = await start(machine, script, stdin=True, tty=True)
    call = Call(machine, pod)
    call.send(b"go\n")
    await call.until(b"ready")
    call.send(b"\x03")
    await call.until(b"interrupted")
    assert termination(await machine.until(lambda pod: phase(pod) == "Failed"))["exitCode"] == 3


async def test_much_input_and_much_output(machine: Machine) -> None:
    pod = await start(machine, "cat", stdin=True, stdinOnce=True)
    call = Call(machine, pod)
    block = bytes(range(32, 127)) * 1000 + b"\n"
    for _ in range(20):
        call.send(block)
    call.end_input()
    await call.status()
    assert await call.until(b"") == block * 20


async def test_input_on_its_way_to_a_container_that_ends_hides_no_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await start(machine, SHELL, stdin=True)
    ours, shim = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    shim.send(b"\1last words")
    shim.close()
    monkeypatch.setattr(attaching, "_connection", lambda base: ours)
    received: list[bytes] = []

    async def receive(message: bytes) -> None:
        for _ in range(9):
            await asyncio.sleep(0)  # as a network does: meanwhile the input finds no reader
        received.append(message)

    async def typed() -> AsyncIterator[bytes]:
        yield b"\0too late\n"
        await asyncio.Event().wait()

    run = machine.folder(pod).run("main")
    assert run is not None
    async with asyncio.timeout(60):
        await Attachment(machine.folder(pod), "main", run, True, frozenset((1, 2))).run(
            None, typed(), receive
        )
    assert received[1] == b"\1last words"
    assert orjson.loads(received[2][1:]) == {"metadata": {}, "status": "Success"}


async def test_a_caller_that_reads_nothing_does_not_stop_the_container(machine: Machine) -> None:
    pod = await start(machine, "read line; seq 1 300000; echo done", stdin=True, stdinOnce=True)
    run = machine.folder(pod).run("main")
    assert run is not None
    blocked = asyncio.Event()

    async def send(_: bytes) -> None:
        await blocked.wait()

    async def messages() -> AsyncIterator[bytes]:
        yield b"\0go\n"
        await blocked.wait()

    attachment = Attachment(machine.folder(pod), "main", run, True, frozenset((1, 2)))
    first = asyncio.create_task(attachment.run(None, messages(), lambda message: _later(message, send)))
    await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert machine.log(pod)[-1] == "done"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def _later(message: bytes, send: object) -> None:
    """Take the first message, which says that all is set up, and block at the next."""
    if len(message) > 1:
        assert callable(send)
        await send(message)


async def test_a_container_without_input_shows_what_it_writes_from_now_on(machine: Machine) -> None:
    pod = await start(machine, 'while [ ! -e "$HOME/go" ]; do sleep 0.05; done; echo out; echo err >&2')
    call = Call(machine, pod)
    call.send(b"ignored")
    async with asyncio.timeout(60):
        await call.set_up.wait()
    (machine.folder(pod).base("main", 0).parent / "home" / "go").touch()
    assert await call.until(b"out\n") == b"out\n"
    assert await call.until(b"err\n", channel=2) == b"err\n"
    assert (await call.status())["status"] == "Success"


async def test_what_is_written_once_all_is_set_up_is_shown(machine: Machine) -> None:
    pod = await start(machine, "sleep 1000")
    folder = machine.folder(pod)
    run = folder.run("main")
    assert run is not None
    log, received = folder.base("main", run.attempt).with_suffix(".log"), list[bytes]()
    shown = asyncio.Event()

    async def receive(message: bytes) -> None:
        if not received:  # that all is set up: from here on nothing may be missed
            with log.open("ab") as file:
                file.write(b"2026-01-01T00:00:00Z stdout F first\n")
        received.append(message)
        if message.endswith(b"first\n"):
            shown.set()

    async def no_input() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    task = asyncio.create_task(
        Attachment(folder, "main", run, False, frozenset((1, 2))).run(None, no_input(), receive)
    )
    async with asyncio.timeout(60):
        await shown.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_killed_program_ends_the_call(machine: Machine) -> None:
    pod = await start(machine, "sleep 1000", stdin=True, tty=True)
    call = Call(machine, pod)
    await machine.cluster.delete(PODS, pod["metadata"]["name"], "default")
    assert (await call.status())["status"] == "Success"
    assert not machine.folder(pod).base("main", 0).with_suffix(".attach").exists()


async def test_a_terminal_without_numbers_of_its_own(tmp_path: Path) -> None:
    machine = Machine(make_config(tmp_path / "state", pids="never", mounts="never"))
    machine.start()
    try:
        pod = await start(machine, "read line; echo got $line", stdin=True, tty=True)
        call = Call(machine, pod)
        call.send(b"go\n")
        await call.until(b"got go")
        assert (await call.status())["status"] == "Success"
    finally:
        await machine.stop()
        await stop_all_pods(machine.config, grace=0.0)
