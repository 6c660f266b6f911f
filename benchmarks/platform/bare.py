"""The limit beside the API: one bare Starlette handler under the same uvicorn, answering fixed bytes.

`python -m benchmarks.platform.bare FILE` answers every request with FILE's bytes. Prints its port; ends when its
standard input closes.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_app(body: bytes) -> Starlette:
    async def get(request: Request) -> Response:
        return Response(body, media_type="application/json")

    async def post(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    one, many = "/v0/{resource}/{id}", "/v0/{resource}"
    return Starlette(routes=[Route(one, get), Route(many, get), Route(many, post, methods=["POST"])])


async def main(body: bytes) -> None:
    config = uvicorn.Config(
        make_app(body),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        print(listening.getsockname()[1], flush=True)
        server = _Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]).read_bytes()))
