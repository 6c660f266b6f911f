"""Local servers that answer like the Hugging Face hub and like Zenodo, for tests of data sources.

They answer as the real ones do, as far as a fetch can distinguish: descriptions, redirects of large files to another
origin, ETags, ranges; and they misbehave where a test asks for it.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT, LATER = "c" * 40, "d" * 40
RECORD, CONCEPT = 7002, 7001
TOKEN = "hf_the-token"
LARGE = 1000
"""Size from which the hub keeps a file apart, and sends its readers there."""


@dataclass
class ServedSource:
    """Files of a server, and its faults."""

    files: dict[str, bytes]
    origin: str = ""
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    versions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by commit, where they are not `files`."""
    token: str | None = None
    """Token without which nothing is answered."""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers of the API."""
    cut: list[int] = field(default_factory=list)
    """Bytes after which the next downloads break off."""
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """Path and headers of every request."""
    croissant: Any = None
    """Croissant file that the hub writes about the dataset."""
    hold: threading.Event | None = None
    """Event until which downloads stop in the middle."""
    halfway: threading.Event = field(default_factory=threading.Event)
    """Event that a download has come to the middle."""
    store: "ServedSource | None" = None
    """Server to which downloads of large files are sent."""

    def version(self, commit: str) -> dict[str, bytes]:
        return self.versions.get(commit, self.files)

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


class _Handler(BaseHTTPRequestHandler):
    place: ServedSource
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.place.requests.append((path, {name.lower(): value for name, value in self.headers.items()}))
        if self.place.token and self.headers.get("Authorization") != f"Bearer {self.place.token}":
            self._json(401, {"error": "no"})
        elif path.startswith("/api/") and self.place.statuses:
            self._json(self.place.statuses.pop(0), {})
        else:
            self._answer(path)

    def _answer(self, path: str) -> None:
        raise NotImplementedError

    def _json(self, status: int, content: Any) -> None:
        self._head(status, len(body := json.dumps(content).encode()), {"Content-Type": "application/json"})
        self.wfile.write(body)

    def _redirect(self, target: str) -> None:
        self._head(302, 0, {"Location": target})

    def _file(self, content: bytes) -> None:
        """The file, or the rest of it that is asked for."""
        start, status = 0, 200
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        headers = {"ETag": etag}
        asked = self.headers.get("Range", "")
        if asked and self.headers.get("If-Range") in (None, etag):
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._head(status, len(content) - start, headers)
        if self.place.cut:
            self.wfile.write(content[start : start + self.place.cut.pop(0)])
            self.close_connection = True
            return
        middle = (start + len(content)) // 2
        self.wfile.write(content[start:middle])
        if self.place.hold is not None:
            self.place.halfway.set()
            self.place.hold.wait(600)
        self.wfile.write(content[middle:])

    def _head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Hub(_Handler):
    def _answer(self, path: str) -> None:
        place, revision = self.place, path.removeprefix("/api/datasets/org/rows/revision/")
        if revision != path:
            commit = place.branches.get(revision, revision)
            if commit not in {*place.branches.values(), *place.versions}:
                return self._json(404, {"error": "Invalid rev id"})
            siblings = [_sibling(name, content) for name, content in place.version(commit).items()]
            return self._json(200, {"id": "org/rows", "sha": commit, "siblings": siblings})
        if path == "/api/datasets/org/rows/croissant":
            return self._json(200 if place.croissant else 404, place.croissant or {})
        _, _, rest = path.partition("/datasets/org/rows/resolve/")
        commit, _, name = rest.partition("/")
        content = place.version(commit).get(name)
        if content is None:
            return self._json(404, {"error": "Entry not found"})
        if place.store and len(content) >= LARGE:
            return self._redirect(f"{place.store.origin}/stored/{hashlib.sha256(content).hexdigest()}")
        return self._file(content)


class _Store(_Handler):
    """The other origin that holds large files: by their digest."""

    def _answer(self, path: str) -> None:
        by_digest = {hashlib.sha256(content).hexdigest(): content for content in self.place.files.values()}
        content = by_digest.get(path.removeprefix("/stored/"))
        self._file(content) if content is not None else self._json(404, {})


class _Zenodo(_Handler):
    def _answer(self, path: str) -> None:
        place = self.place
        if path == f"/api/records/{CONCEPT}":
            return self._redirect(f"{place.origin}/api/records/{RECORD}")
        if path == f"/api/records/{RECORD}":
            return self._json(200, self._record())
        prefix = f"/api/records/{RECORD}/files/"
        content = place.files.get(path.removeprefix(prefix).removesuffix("/content"))
        return self._file(content) if content is not None else self._json(404, {"status": 404})

    def _record(self) -> Any:
        root = f"{self.place.origin}/api/records/{RECORD}"
        files = [
            {
                "id": "11111111-2222-4333-8444-555555555555",
                "key": name,
                "size": len(content),
                "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
                "links": {"self": f"{root}/files/{name}/content"},
            }
            for name, content in self.place.files.items()
        ]
        metadata = {"title": "Rows", "version": "2.0", "license": {"id": "cc-by-4.0"}}
        doi = f"10.5281/zenodo.{RECORD}"
        return {"id": RECORD, "conceptrecid": str(CONCEPT), "doi": doi, "metadata": metadata, "files": files}


def _sibling(name: str, content: bytes) -> Any:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    sibling: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git}
    if len(content) >= LARGE:
        digest = hashlib.sha256(content).hexdigest()
        sibling["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
    return sibling


@contextmanager
def hub_server(files: Mapping[str, bytes]) -> Iterator[ServedSource]:
    """Serve the dataset org/rows like the hub, with large files at another origin."""
    with (
        _serve(_Store, ServedSource(dict(files))) as store,
        _serve(_Hub, ServedSource(dict(files), store=store)) as hub,
    ):
        yield hub


@contextmanager
def zenodo_server(files: Mapping[str, bytes]) -> Iterator[ServedSource]:
    """Serve a record like Zenodo."""
    with _serve(_Zenodo, ServedSource(dict(files))) as zenodo:
        yield zenodo


@contextmanager
def _serve(handler: type[_Handler], place: ServedSource) -> Iterator[ServedSource]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (handler,), {"place": place}))
    server.daemon_threads = True
    place.origin = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
