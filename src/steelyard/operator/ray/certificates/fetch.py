"""The program of a Pod's first container: makes a key, asks the operator for a certificate, and writes both for Ray.

`python -m steelyard.operator.ray.certificates.fetch`. It uses nothing but the standard library and `cryptography`, and
tries again until it has a certificate: the operator may be starting, and the Pod's address not be written yet.
"""

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from steelyard.operator.ray.certificates.authorities import key_pem, new_key, request_for

_TIMEOUT = 10.0
_LONGEST_PAUSE = 10.0


class Refused(Exception):
    """The operator has said no; asking again changes nothing."""


def fetch(url: str, identity: Path, folder: Path) -> None:
    """Write tls.key, tls.crt and ca.crt. Raises Refused."""
    key = new_key()
    body = json.dumps({"request": request_for(key, os.environ.get("HOSTNAME", "ray"))}).encode()
    pause = 0.5
    while (answer := _ask(url, identity, body)) is None:
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    # Readable for all users of the Pod, because each image names its own; the folder is in this Pod alone.
    for name, text in (
        ("tls.key", key_pem(key)),
        ("tls.crt", answer["certificate"]),
        ("ca.crt", answer["ca"]),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o444)


def _ask(url: str, identity: Path, body: bytes) -> dict[str, str] | None:
    """Return the answer, or None to try again. The token and the authorities are read each time: both are renewed."""
    try:
        context = ssl.create_default_context(cafile=str(identity / "ca.crt"))
        token = (identity / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:
            parsed = json.load(answer)
        return {"certificate": str(parsed["certificate"]), "ca": str(parsed["ca"])}
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        if error.code in (400, 401, 403):
            raise Refused(f"{url}: {text}") from error
        print(f"{url}: {error.code}: {text}; again", file=sys.stderr, flush=True)
    except (OSError, ValueError, KeyError) as error:
        print(f"{url}: {error}; again", file=sys.stderr, flush=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask the operator for the certificate of this Pod.")
    parser.add_argument("--url", required=True, help="address of the operator's service")
    parser.add_argument("--identity", required=True, type=Path, help="folder with token and ca.crt")
    parser.add_argument("--folder", required=True, type=Path, help="folder to write to")
    options = parser.parse_args()
    try:
        fetch(options.url, options.identity, options.folder)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
