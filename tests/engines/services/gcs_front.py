"""Cloud Storage's XML requests, translated to the JSON requests that fake-gcs-server understands.

The library speaks the XML form alone, and no registry has a server of it. The server behind decides what to keep,
when, and under which condition; the forms of requests and answers are those that Google documents, as this module
reads them. So are the proofs of who asks, a token (RS256) or a signed URL (GOOG4-RSA-SHA256): the server behind asks
for none.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

PASSED_ON = ("content-type", "content-length", "content-range", "last-modified", "etag")
HOST = "storage.googleapis.com"


@dataclass(frozen=True)
class Answer:
    """Answer to one request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] | Message = field(default_factory=dict)


class Front(ThreadingHTTPServer):
    """Listens on a free port; `backend` is the server's URL, and signatures are made by `key`."""

    daemon_threads = True

    def __init__(self, backend: str, key: RSAPrivateKey) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.backend = backend
        self.key = key.public_key()
        self.uploads: dict[str, dict[int, bytes]] = {}
        """Parts of uploads that are not complete yet."""

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request to the server behind. Its absence is an answer that clients try again after."""
        request = urllib.request.Request(self.backend + path, body, dict(headers or {}), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), error.headers)
        except OSError:
            return Answer(503)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Front

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(30)

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the base class looks for these names

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each request."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        signed = "X-Goog-Signature" in query
        refusal = self._refusal(split.path, query) if signed else self._refused_token()
        bucket, _, name = split.path.lstrip("/").partition("/")
        if refusal:
            answer = _error(403, "SignatureDoesNotMatch" if signed else "AccessDenied", refusal)
        elif not name:
            answer = self._list(bucket, query)
        else:
            answer = self._object(bucket, unquote(name), query, body)
        self.send_response(answer.status)
        length = str(len(answer.body))
        for header, value in answer.headers.items():
            if header.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif header.lower().startswith("x-goog-") or header.lower() in PASSED_ON[:1] + PASSED_ON[2:]:
                self.send_header(header, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _object(self, bucket: str, name: str, query: Mapping[str, str], body: bytes) -> Answer:
        uploads, upload = self.server.uploads, query.get("uploadId", "")
        match self.command:
            case "PUT" if "partNumber" in query:
                uploads[upload][int(query["partNumber"])] = body
                return Answer(200, headers={"ETag": f'"{query["partNumber"]}"'})
            case "POST" if "uploads" in query:
                uploads[upload := secrets.token_hex(8)] = {}
                return _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
            case "POST" if upload:
                parts = uploads.pop(upload)
                numbers = [
                    int(part.text or 0)
                    for part in ElementTree.fromstring(body).iter()
                    if part.tag.endswith("PartNumber")
                ]
                put = self._put(bucket, name, b"".join(parts[number] for number in numbers))
                return (
                    _xml("CompleteMultipartUploadResult", f"<ETag>{put.headers.get('ETag')}</ETag>")
                    if put.status == 200
                    else put
                )
            case "DELETE" if upload:
                uploads.pop(upload, None)
                return Answer(204)
            case "PUT" if source := self.headers.get("x-goog-copy-source"):
                return self._copy(unquote(source).lstrip("/"), bucket, name)
            case "PUT":
                return self._put(bucket, name, body)
            case _:
                given = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
                return self.server.ask(self.command, f"/{bucket}/{quote(name, safe='')}", None, given)

    def _put(self, bucket: str, name: str, body: bytes) -> Answer:
        prefix = "x-goog-meta-"
        metadata = {
            key.lower()[len(prefix) :]: value
            for key, value in self.headers.items()
            if key.lower().startswith(prefix)
        }
        described = {"name": name, "metadata": metadata, "contentType": self.headers.get("Content-Type", "")}
        if digest := self.headers.get("Content-MD5"):
            described["md5Hash"] = digest
        border = secrets.token_hex(16)
        content = b"".join(
            [
                f"--{border}\r\nContent-Type: application/json\r\n\r\n{json.dumps(described)}\r\n".encode(),
                f"--{border}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
                body,
                f"\r\n--{border}--".encode(),
            ]
        )
        asked = {"uploadType": "multipart", "name": name, **self._condition()}
        path = f"/upload/storage/v1/b/{bucket}/o?{urlencode(asked)}"
        kind = f"multipart/related; boundary={border}"
        return _written(self.server.ask("POST", path, content, {"Content-Type": kind}))

    def _copy(self, source: str, bucket: str, name: str) -> Answer:
        source_bucket, _, source_name = source.partition("/")
        path = f"/storage/v1/b/{source_bucket}/o/{quote(source_name, safe='')}"
        path += f"/rewriteTo/b/{bucket}/o/{quote(name, safe='')}"
        asked = urlencode(self._condition())
        return _written(self.server.ask("POST", f"{path}?{asked}", b""))

    def _condition(self) -> Mapping[str, str]:
        generation = self.headers.get("x-goog-if-generation-match")
        return {} if generation is None else {"ifGenerationMatch": generation}

    def _list(self, bucket: str, query: Mapping[str, str]) -> Answer:
        asked = {"prefix": query.get("prefix", ""), "maxResults": query.get("max-keys", "1000")}
        if token := query.get("continuation-token"):
            asked["pageToken"] = token
        answer = self.server.ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}")
        if answer.status != 200:
            return _error(answer.status, "Failed", "")
        listed = json.loads(answer.body)
        inner = [
            f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size><ETag>{item['etag']}</ETag>"
            f"<LastModified>{item['updated']}</LastModified></Contents>"
            for item in listed.get("items", [])
        ]
        if after := listed.get("nextPageToken"):
            inner.append(f"<NextContinuationToken>{escape(after)}</NextContinuationToken>")
        return _xml("ListBucketResult", "".join(inner))

    def _refusal(self, path: str, query: Mapping[str, str]) -> str:
        """Return why the signature of a URL does not permit this request; nothing where it does."""
        made = datetime.strptime(query["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if time.time() > made.timestamp() + int(query["X-Goog-Expires"]):
            return "the signature has expired"
        signed = query["X-Goog-SignedHeaders"].split(";")
        for header in map(str.lower, self.headers):
            if header.startswith("x-goog-") and header not in signed:
                return f"{header} is not signed"
        # The library signs for Google's own name, whatever the address is.
        values = {header: self.headers.get(header, "").strip() for header in signed} | {"host": HOST}
        rest = sorted((key, value) for key, value in query.items() if key != "X-Goog-Signature")
        request = [
            self.command,
            path,
            "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in rest),
            *(f"{header}:{values[header]}" for header in signed),
            "",
            ";".join(signed),
            "UNSIGNED-PAYLOAD",
        ]
        scope = query["X-Goog-Credential"].partition("/")[2]
        digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
        text = "\n".join([query["X-Goog-Algorithm"], query["X-Goog-Date"], scope, digest])
        if not self._is_signed(text, bytes.fromhex(query["X-Goog-Signature"])):
            return "the signature is not one for this request"
        return ""

    def _refused_token(self) -> str:
        """Return why the request's token proves nothing; nothing where it does."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        text, _, signature = token.rpartition(".")
        padding = "=" * (-len(signature) % 4)
        if not text or not self._is_signed(text, base64.urlsafe_b64decode(signature + padding)):
            return "the token is not one of an account that may do this"
        return ""

    def _is_signed(self, text: str, signature: bytes) -> bool:
        try:
            self.server.key.verify(signature, text.encode(), PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


def _written(answer: Answer) -> Answer:
    if answer.status != 200:
        return _error(answer.status, "PreconditionFailed" if answer.status == 412 else "Failed", "")
    item = json.loads(answer.body)
    item = item.get("resource", item)
    etag, generation = item["etag"], str(item["generation"])
    copied = f"<ETag>{escape(etag)}</ETag><LastModified>{item['updated']}</LastModified>"
    return Answer(200, _xml("CopyObjectResult", copied).body, {"ETag": etag, "x-goog-generation": generation})


def _xml(name: str, inner: str) -> Answer:
    return Answer(200, f'<?xml version="1.0"?><{name}>{inner}</{name}>'.encode())


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())


@contextmanager
def front(backend: str, key: RSAPrivateKey) -> Iterator[int]:
    """Listen in front of the server at a URL; gives the port."""
    server = Front(backend, key)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
