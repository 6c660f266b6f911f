"""A process that writes the webhooks' certificates to files, as a kubelet would for a Pod's Secret.

The operators make the certificates by themselves, and wait until they lie in their folders.
"""

import asyncio
import base64
import os
import sys
from pathlib import Path

from tests.kubernetes_api.api import Api

POLL_SECONDS = 0.2


async def main(kubeconfig: Path, folders: dict[str, Path]) -> None:
    api = Api(kubeconfig)
    written: dict[str, object] = {}
    while True:
        for name, folder in folders.items():
            path = f"/api/v1/namespaces/{name}-system/secrets/{name}-webhook-server-cert"
            answer = await api.get(path)
            data = answer.json.get("data") if answer.status == 200 else None
            if data and data != written.get(name):
                write(folder, data)
                written[name] = data
        await asyncio.sleep(POLL_SECONDS)


def write(folder: Path, data: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in data.items():
        half = folder / f".{name}"
        half.write_bytes(base64.b64decode(value))
        os.replace(half, folder / name)


if __name__ == "__main__":
    pairs = dict(word.split("=", 1) for word in sys.argv[2:])
    asyncio.run(main(Path(sys.argv[1]), {name: Path(folder) for name, folder in pairs.items()}))
