"""Reads all states of a log into a local copy, in a process of its own: `python -m benchmarks.engines.local_copy URL`.

Prints the seconds that this took, and the memory of the process before and after it in MB, as JSON. `growth` calls it:
a process that has also filled the log keeps memory of that.
"""

import asyncio
import json
import os
import sys

from benchmarks.machine.__main__ import memory
from steelyard.broker.log import STATE
from steelyard.broker.open import open_log


async def main(url: str) -> None:
    log = await open_log(url)
    before = memory([os.getpid()])
    clock = asyncio.get_running_loop().time
    began = clock()
    await log.latest(STATE, "k0")
    print(json.dumps({"seconds": clock() - began, "before": before, "after": memory([os.getpid()])}))
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
