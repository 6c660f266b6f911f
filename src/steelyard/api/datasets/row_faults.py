"""Rows of a dataset that no answer could mend, where they are known when a request names the dataset.

The columns in question are read within a bound of bytes, and judged in a process of their own by the code that judges
them for `eval run`: neither pyarrow nor a rubric is imported here, and what the rows unpack to ends no more than that
process.
"""

import asyncio
import os
import sys
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import cast

import orjson

from steelyard.api.datasets.columns import FilePart, read_columns
from steelyard_evaluation.storage.store import Store
from steelyard_schema.columns import INDEX
from steelyard_schema.dataset import Dataset

MOST_BYTES = 16 << 20
"""Most bytes of the files that are read for a request: more are left to the step."""
_SECONDS, _TURN_SECONDS = 20.0, 5.0
_REMEMBERED = 1000
_PROGRAM = "steelyard_evaluation.report.faulty_rows"
_VARIABLES = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR")
"""Variables that the process inherits: it reads what strangers wrote, and needs no secret."""
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


class RowFaults:
    """Finds and remembers them; one dataset is looked at at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._known: OrderedDict[tuple[str, str | None], str | None] = OrderedDict()

    async def find(self, dataset: Dataset, rubric: str | None, columns: Collection[str]) -> str | None:
        """Return what is wrong with the rows for a rubric, or with their numbers alone.

        None where nothing is, or it is not known: the dataset is not Ready, is too large, or takes too long.
        """
        key = (dataset.id, rubric)
        if dataset.status != "Ready":
            return None
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            return None
        try:
            # The files of a dataset that is Ready stay as they are.
            if key not in self._known:
                async with asyncio.timeout(_SECONDS):
                    self._known[key] = await self._look(dataset, rubric, columns)
            self._known.move_to_end(key)
            return self._known[key]
        except TimeoutError:
            return None
        finally:
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            self._turn.release()

    async def _look(self, dataset: Dataset, rubric: str | None, columns: Collection[str]) -> str | None:
        files = await read_columns(self._store, dataset, {INDEX, *columns}, MOST_BYTES)
        if files is None:
            return None
        with ExitStack() as stack:
            numbers = [_in_memory(file, stack) for file in files]
            question = {
                "rubric": rubric,
                "location": f"dataset {dataset.id}",
                "files": [f"/proc/self/fd/{number}" for number in numbers],
                "columns": sorted(columns),
            }
            return await _answer(orjson.dumps(question), numbers)


def _in_memory(file: FilePart, stack: ExitStack) -> int:
    """Return the descriptor of a file that has nothing but the parts, each at its place."""
    number = os.memfd_create("columns")
    stack.callback(os.close, number)
    os.truncate(number, file.size)
    for start, content in file.pieces.items():
        os.pwrite(number, content, start)
    return number


async def _answer(question: bytes, files: Sequence[int]) -> str | None:
    kept = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", _PROGRAM, env={**kept, **_THREADS}, pass_fds=files,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said, _ = await process.communicate(question)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return cast(str | None, orjson.loads(said)) if process.returncode == 0 else None
