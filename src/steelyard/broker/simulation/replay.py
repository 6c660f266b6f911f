"""Tools for property tests of a service: histories out of order and doubled, records again, crashes at every point.

A service is right when `state(log + log[k:]) == state(log)` for every k, the second reading emits nothing, and a crash
at any write leads to the same as none. The tests of the services call this; the order is a `random.Random`'s, which
hypothesis supplies.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from random import Random

from steelyard.broker.consume import Step, consume_once
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import Log, Message
from steelyard.broker.retries import Retries

MakeStep = Callable[[Log], Step]


class Crash(BaseException):
    """The process died here: no handler of exceptions sees it."""


def woven(histories: Sequence[Sequence[Message]], random: Random) -> list[Message]:
    """One history from several: each stays in its order, between them there is none."""
    left = [list(history) for history in histories if history]
    result = []
    while left:
        history = random.choice(left)
        result.append(history.pop(0))
        left = [messages for messages in left if messages]
    return result


def repeat_some(history: Sequence[Message], random: Random, share: float = 0.2) -> list[Message]:
    """Some messages come again, at once or much later, as from a sender that did not get its answer."""
    result = list(history)
    for message in history:
        if random.random() < share:
            first = result.index(message)
            result.insert(random.randint(first + 1, len(result)), message)
    return result


async def work_off(log: Log, group: str, topic: str, make: MakeStep, limits: Sequence[int] = (500,)) -> None:
    """A process starts, works off all there is in batches of these sizes, and ends."""
    inbox = await log.inbox(group, topic)
    step, number = make(log), 0
    try:
        while (batch := await inbox.batch(limits[number % len(limits)], wait=0)).records:
            for partition in await consume_once(log, batch, inbox.transact, step, Retries(())):
                inbox.pause(partition)
            number += 1
    finally:
        await inbox.close()


async def work_off_again(
    log: MemoryLog, group: str, topic: str, make: MakeStep, starts: Mapping[int, int]
) -> int:
    """Work off everything again after the group has lost its positions; return the number of messages written."""
    before = log.written
    log.rewind(group, topic, starts)
    await work_off(log, group, topic, make)
    return log.written - before


async def crash_everywhere(
    history: Sequence[Message], run: Callable[[MemoryLog], Awaitable[None]]
) -> AsyncIterator[MemoryLog]:
    """`run` on a log with the history, cut short before its first write, after it, before the second, and so on.

    Each time it is run again on what is left, as by a new process, and the log is given. The last one saw no crash.
    """
    moment, crashed = 0, True
    while crashed:
        log = MemoryLog()
        await log.publish(history)
        bomb = _Bomb(moment)
        log.crash = log.crash_after = bomb.tick
        try:
            await run(log)
        except Crash:
            await run(log)
        yield log
        moment, crashed = moment + 1, bomb.left < 0


class _Bomb:
    """Goes off once."""

    def __init__(self, left: int) -> None:
        self.left = left

    def tick(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise Crash
