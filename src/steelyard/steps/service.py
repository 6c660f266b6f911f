"""Parts that the services in session Pods share.

An address to listen on, JSON log lines, last words. Starts fast: standard library and aiohttp only.
"""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from aiohttp import web

from steelyard_common.errors import system_words
from steelyard_common.serving.aiohttp_server import run

EXIT_PERMANENT = 65  # as schema.steps says; importing it here would cost more than the service's own start


def log(level: str, service: str, message: str, **fields: str | int | float) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "step": service, "message": message, **fields}
    print(json.dumps(line), flush=True)


def fail(service: str, code: str, message: str) -> NoReturn:
    """End for good: the reason goes to the log and to the termination message."""
    log("error", service, message, code=code)
    path = Path(os.environ.get("STEELYARD_TERMINATION_LOG", "/dev/termination-log"))
    try:
        path.write_text(json.dumps({"code": code, "message": message[:3000]}))
    except OSError as error:  # outside a container there is no such file; the log line says the same
        print(f"cannot write the termination message to {path}: {error}", file=sys.stderr)
    sys.exit(EXIT_PERMANENT)


def add_address(parser: argparse.ArgumentParser, port: int) -> None:
    """`--host` and `--port`: by default what the Pod's environment says.

    A service must know its address: it never listens on all.
    """
    host = os.environ.get("HOST") or os.environ.get("POD_IP")
    parser.add_argument(
        "--host", default=host, required=host is None, help="address to listen on [$HOST, $POD_IP]"
    )
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("PORT", port)), help="[$PORT, %(default)s]"
    )


def serve(service: str, app: web.Application, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; calls in flight get their answers."""

    def listening() -> None:
        log("info", service, f"listening on http://{host}:{port}", host=host, port=port)

    try:
        run(app, host, port, ready=listening)
    except OSError as error:
        fail(service, "CannotListen", f"cannot listen on {host}:{port}: {system_words(error)}")
    log("info", service, "stopped")
