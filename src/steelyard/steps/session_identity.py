"""`python -m steelyard.steps.session_identity --session ID`.

Says which session this Pod serves, on port 8001 of the Pod's address.

The evaluation client asks at connect, so that an address taken over by another session never scores its
model. It stands in every session Pod, hence the standard library alone.
"""

import argparse
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

IDLE_SECONDS = 60


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    session = ""

    def do_GET(self) -> None:
        answers = {"/steelyard/session": {"session": self.session}, "/ready": {"status": "ready"}}
        answer = answers.get(self.path.partition("?")[0])
        body = json.dumps(answer or {"error": f"there is no {self.path} here"}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """One line per connect of every client says nothing."""


def make_server(session: str, host: str, port: int) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"session": session})
    server = ThreadingHTTPServer((host, port), handler)
    server.daemon_threads = True
    return server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m steelyard.steps.session_identity")
    pod_ip = os.environ.get("POD_IP")
    parser.add_argument("--session", required=True, metavar="ID")
    parser.add_argument(
        "--host", default=pod_ip, required=pod_ip is None, help="address to listen on [$POD_IP]"
    )
    parser.add_argument("--port", type=int, default=8001)
    arguments = parser.parse_args()

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    server = make_server(arguments.session, arguments.host, arguments.port)
    line = {"level": "info", "step": "session_identity", "message": "listening", "session": arguments.session}
    print(json.dumps(line), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
