"""`python -m tests.kubernetes_api.crashing FOLDER PORT`: an embedded server in a process of its own, to be killed."""

import asyncio
import sys
from pathlib import Path

import yaml

from steelyard.local.apiserver import pki
from steelyard.local.apiserver.server import ApiServerConfig, serve

TOKEN = "a token of tests"


async def main(folder: Path, port: int) -> None:
    config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {TOKEN: "tester"}, port=port)
    async with serve(config) as server:
        content = pki.kubeconfig(server.url, server.ca, TOKEN)
        (folder / "kubeconfig").write_text(yaml.safe_dump(content))
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
