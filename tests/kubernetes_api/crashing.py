"""`python -m tests.kubernetes_api.crashing FOLDER PORT [STATEMENT]`: an embedded server in a process of its own, to be
killed; with a number, it kills itself before that statement of its database.
"""

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

import yaml

from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.database import SqliteDatabase
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve

TOKEN = "a token of tests"


def kill_before(database: object, statement: int) -> None:
    """SIGKILL before the numbered statement: begin, write of a row or of the version, or commit."""
    assert isinstance(database, SqliteDatabase)
    numbers = itertools.count(1)

    def count(_: str) -> None:
        if next(numbers) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    database._connection.set_trace_callback(count)


async def main(folder: Path, port: int, statement: int) -> None:
    config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {TOKEN: "tester"}, port=port)
    async with serve(config) as server:
        content = pki.kubeconfig(server.url, server.ca, TOKEN)
        (folder / "kubeconfig").write_text(yaml.safe_dump(content))
        if statement:
            kill_before(server.core.store._database, statement)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
