"""The repository of one artifact, as tests of the registry ask it over HTTP."""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

from tests.platform_api.published import Laboratory

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """One artifact's repository, and how it is asked."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.root = lab.platform.url.removesuffix("/v0")
        self.id = lab.make("OCIArtifact")
        self.path = f"/v2/artifacts/{self.id}"

    @property
    def auth(self) -> tuple[str, str]:
        return "anybody", self.lab.platform.token

    @property
    def folder(self) -> Path:
        """Folder of the repository's content."""
        return self.lab.folder / "storage" / "ociartifacts" / self.id

    def ask(self, method: str, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
        address = path if path.startswith("/v2/") else f"{self.path}/{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.root}{address}"
        return httpx.request(method, url, content=content, headers=named, auth=self.auth, timeout=60)

    def begin(self) -> str:
        answer = self.ask("POST", "blobs/uploads/")
        assert answer.status_code == 202
        return str(answer.headers["Location"])

    def blob(self, content: bytes) -> str:
        digest = digest_of(content)
        answer = self.ask("PUT", f"{self.begin()}?digest={digest}", content)
        assert (answer.status_code, answer.headers["Docker-Content-Digest"]) == (201, digest)
        return digest

    def manifest(self, *layers: str, config: str | None = None, **fields: object) -> bytes:
        def descriptor(digest: str) -> dict[str, Any]:
            return {"mediaType": "application/octet-stream", "digest": digest, "size": 1}

        content = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(config or self.blob(b"{}")),
            "layers": [descriptor(layer) for layer in layers],
            **fields,
        }
        return json.dumps(content).encode()

    def referrer(self, subject: str, number: int = 0, kind: str = "") -> bytes:
        """Return a manifest that refers to another one."""
        named = {"mediaType": MANIFEST, "digest": subject, "size": 1}
        typed = {"artifactType": kind} if kind else {}
        return self.manifest(subject=named, annotations={"number": str(number)}, **typed)

    def push(self, reference: str, manifest: bytes) -> httpx.Response:
        return self.ask("PUT", f"manifests/{reference}", manifest, Content_Type=MANIFEST)

    def finalize(self) -> httpx.Response:
        url = f"{self.root}/v0/artifacts/{self.id}/finalize"
        return httpx.post(url, headers=self.lab.platform.headers, timeout=60)


def code(answer: httpx.Response) -> tuple[int, str]:
    (error,) = answer.json()["errors"]
    assert error["message"]
    return answer.status_code, error["code"]
