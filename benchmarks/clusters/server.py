"""The embedded API server with Ray clusters that are ready, and a front that counts requests:
`python -m benchmarks.clusters.server FOLDER SIZE ...`.

Both clients go through the front, so that their requests are counted by one rule. `GET /count` of the front answers
with the requests since the last such question. No controller runs: a cluster is an object and its status.
"""

import asyncio
import sys
from pathlib import Path

import aiohttp
import uvloop
import yaml
from aiohttp import web

from steelyard.clusters import ClusterConfig
from steelyard.clusters.kinds import RAY_CLUSTER
from steelyard.clusters.ray.manifest import ray_cluster
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.resource import NAMESPACES
from steelyard_local_kubernetes.apiserver.pki import kubeconfig
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_schema.definitions import load_definitions

TOKEN = "benchmark"
IN_FLIGHT = 32


def namespace_of(size: int) -> str:
    return f"with-{size}"


class Front:
    """A reverse proxy that counts."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session, self.count = url, session, 0

    async def answer(self, request: web.Request) -> web.Response:
        self.count += 1
        headers = {
            name: request.headers[name]
            for name in ("Accept", "Authorization", "Content-Type")
            if name in request.headers
        }
        async with self.session.request(
            request.method, self.url + request.path_qs, headers=headers, data=await request.read()
        ) as answer:
            body = await answer.read()
            return web.Response(
                status=answer.status, body=body, headers={"Content-Type": answer.headers["Content-Type"]}
            )

    async def counted(self, request: web.Request) -> web.Response:
        counted, self.count = self.count, 0
        return web.json_response(counted)


async def fill(cluster: RestCluster, size: int) -> None:
    """Make a namespace with this number of ready clusters."""
    resource, limit = RAY_CLUSTER.at("v1"), asyncio.Semaphore(IN_FLIGHT)
    await cluster.create(NAMESPACES, {"metadata": {"name": namespace_of(size)}})

    async def make(number: int) -> None:
        config = ClusterConfig(name=f"c-{number}")
        async with limit:
            made = await cluster.create(resource, ray_cluster(config, namespace_of(size), None))
            await cluster.replace(resource, {**made, "status": {"state": "ready"}}, subresource="status")

    await asyncio.gather(*(make(number) for number in range(size)))


async def main(folder: Path, sizes: list[int]) -> None:
    config = ApiServerConfig(database=folder / "kubernetes.db", pki=folder / "pki", tokens={TOKEN: "admin"})
    async with serve(config) as server:
        direct, written = folder / "direct", folder / "kubeconfig.part"
        direct.write_text(yaml.safe_dump(kubeconfig(server.url, server.ca, TOKEN)))
        cluster = await connect(direct)
        await install_definitions(cluster, load_definitions())
        for size in sizes:
            await fill(cluster, size)
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=True) as session:
            front = Front(server.url, session)
            app = web.Application(client_max_size=1 << 30)
            app.router.add_get("/count", front.counted)
            app.router.add_route("*", "/{path:.*}", front.answer)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            written.write_text(yaml.safe_dump(kubeconfig(url, server.ca, TOKEN)))
            written.rename(folder / "kubeconfig")
            await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), [int(size) for size in sys.argv[2:]]))
