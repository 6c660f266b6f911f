"""Measures the server of a storage folder: `python -m benchmarks.storage_server [--rounds N]`.

One client, the library of the steps, writes and reads a large object and a thousand small ones: in the folder itself,
on our server of it, and on the Versity gateway, where that is installed. The gateway confirms what is not on the disk
yet. The processes share the machine's cores. The engines take turns, and the median of the rounds counts. Memory is
the most that the server's process had.
"""

import argparse
import asyncio
import filecmp
import json
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.machine.__main__ import processor
from steelyard_evaluation.storage.store import Store, open_store
from tests.engines.build import Missing
from tests.engines.services import folder, s3
from tests.engines.services.service import Service

MEBIBYTES, SMALL, TOGETHER = 256, 1000, 16
FIGURES = (
    f"write {MEBIBYTES} MiB",
    f"read {MEBIBYTES} MiB",
    f"create {SMALL:,} objects of 1 KB",
    f"read {SMALL:,} objects of 1 KB",
    f"list {SMALL:,} objects",
)


async def spend(work: Sequence[Awaitable[object]]) -> float:
    """Return the seconds in which all is done, `TOGETHER` at a time."""
    left: Iterator[Awaitable[object]] = iter(work)

    async def take() -> None:
        for awaited in left:
            await awaited

    began = time.perf_counter()
    await asyncio.gather(*(take() for _ in range(TOGETHER)))
    return time.perf_counter() - began


async def measure(store: Store, large: Path) -> list[float]:
    """Return the rates of one round: MiB, objects and objects per second."""
    place = secrets.token_hex(4)
    keys = [f"{place}/small/{number}" for number in range(SMALL)]
    data = os.urandom(1000)
    write = await spend([store.put_file(f"{place}/large", large)])
    read = await spend([store.download(f"{place}/large", large.with_name("read"))])
    if not filecmp.cmp(large, large.with_name("read"), shallow=False):
        raise AssertionError("another content was read than was written")
    create = await spend([store.create(key, data) for key in keys])
    get = await spend([store.get(key) for key in keys])
    began = time.perf_counter()
    listed = [info.key async for info in store.list(f"{place}/small/")]
    listing = time.perf_counter() - began
    if listed != sorted(keys):
        raise AssertionError("another listing than was written")
    await store.delete(f"{place}/large")
    return [MEBIBYTES / write, MEBIBYTES / read, SMALL / create, SMALL / get, SMALL / listing]


def most_memory(service: Service) -> float:
    """Return the most that the server's process had in memory, in MB."""
    status = Path(f"/proc/{service.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage_server", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    figures: dict[str, list[list[float]]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steelyard-bench-")))
        large = scratch / "large"
        large.write_bytes(os.urandom(MEBIBYTES << 20))
        services: dict[str, tuple[Service, Mapping[str, str]]] = {}
        ours = stack.enter_context(folder.folder())
        services["our server"] = ours, folder.client_environment(ours)
        try:
            gateway = stack.enter_context(s3.s3())
            services["Versity gateway"] = gateway, s3.client_environment(gateway)
        except Missing as error:
            print(f"without the Versity gateway: {error}\n")
        for _ in range(rounds):
            figures.setdefault("the folder", []).append(
                asyncio.run(measure(open_store(f"file://{scratch}/folder"), large))
            )
            for name, (_, environment) in services.items():
                os.environ.update(environment)
                figures.setdefault(name, []).append(asyncio.run(measure(open_store("s3://steelyard"), large)))
        medians = {
            name: [statistics.median(column) for column in zip(*measured, strict=True)]
            for name, measured in figures.items()
        }
        print(f"| {' | '.join(('what', *medians))} |\n|{'---|' * (len(medians) + 1)}")
        for number, what in enumerate(FIGURES):
            unit = "MiB/s" if number < 2 else "/s"
            cells = [f"{rates[number]:,.0f} {unit}".replace(" /s", "/s") for rates in medians.values()]
            print(f"| {what} | {' | '.join(cells)} |")
        memory = {name: most_memory(service) for name, (service, _) in services.items()}
        seconds = {name: processor([service.pid]) for name, (service, _) in services.items()}
        print(
            f"| most memory of the server | – | {' | '.join(f'{size:.0f} MB' for size in memory.values())} |"
        )
        print(f"| its processor time | – | {' | '.join(f'{spent:.1f} s' for spent in seconds.values())} |")
        print(json.dumps({"rates": medians, "memory": memory, "seconds": seconds}))


if __name__ == "__main__":
    main()
