"""Calls commands of the `steelyard` that this interpreter has, a process for each. Of ours it imports nothing but the
command line and the client, which every installation has.

Reads a JSON list of argument lists from standard input, and writes a JSON list of [exit status, output, errors].
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import NoReturn

SECONDS = 60
IMPORTED = (
    "aiohttp", "cryptography", "httpcore", "httpx", "numpy", "obstore", "pyarrow.parquet", "pydantic",
    "pydantic_settings", "rich.console", "scipy.stats", "starlette", "steelyard.client", "typer", "uvicorn", "yaml",
)  # fmt: skip
"""Modules that many commands import. What cannot be imported here is tried anew by each command."""


def main() -> None:
    for name in IMPORTED:  # once, where they are installed, instead of once for each call
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from steelyard.cli import main as command_line

    calls: list[list[str]] = json.load(sys.stdin)
    json.dump([_called(command_line.main, call) for call in calls], sys.stdout)


def _called(command: object, arguments: list[str]) -> tuple[int, str, str]:
    # A fork has imported the command line already: each call costs what it imports of ours.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _run(command, arguments, out.fileno(), err.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, _text(out.fileno()), _text(err.fileno())


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 1 << 20, 0).decode(errors="replace")


def _run(command: object, arguments: list[str], out: int, err: int) -> NoReturn:
    signal.alarm(SECONDS)
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = ["steelyard", *arguments]
    status = 1
    try:
        command()  # type: ignore[operator]
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - as Python itself would
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
