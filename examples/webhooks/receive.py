"""A receiver of webhooks, with Python's standard library alone: it checks the signature and prints which workflow has
ended.

WEBHOOK_SECRET=whsec_... python receive.py 9000
"""

import base64
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "")
if len(sys.argv) != 2 or not SECRET.startswith("whsec_"):
    sys.exit("usage: WEBHOOK_SECRET=whsec_... python receive.py PORT")
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
MOST_BYTES = 65_536
seen: set[str] = set()


def is_signed(id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    """Return whether one of the signatures is right, and not older than five minutes."""
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    digest = hmac.digest(KEY, f"{id}.{timestamp}.".encode() + body, "sha256")
    expected = f"v1,{base64.b64encode(digest).decode()}"
    return any(hmac.compare_digest(expected, signature) for signature in signatures.split())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers["Content-Length"]), MOST_BYTES))
        id, timestamp = self.headers.get("webhook-id", ""), self.headers.get("webhook-timestamp", "")
        if not is_signed(id, timestamp, self.headers.get("webhook-signature", ""), body):
            self.send_error(401)
            return
        # The same event may come twice, under the same id.
        if id not in seen:
            seen.add(id)
            event = json.loads(body)
            print(event["type"], event["subject"], event["data"].get("message", ""), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
