"""A double of a model server on a port of loopback: the same text always gets the same answer and likelihoods."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.model_servers import ModelServer


class RunningServer:
    """The server while it listens."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_GET(self) -> None:
                self._send(*server.reply(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(*server.reply(self.path, body))

            def _send(self, status: int, answer: JsonValue) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                return None

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def asked(self) -> int:
        """Number of completions that were requested."""
        return len(self.server.bodies)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
