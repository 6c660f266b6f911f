"""Routes of files: uploads and downloads of entities, and the objects that signed URLs lead to."""

from collections.abc import Iterator

from steelyard.api.datasets import objects
from steelyard.api.datasets.downlinks import downlinks
from steelyard.api.datasets.uploads import finalize, uplink
from steelyard.api.http.access import Grant, SignedUrl
from steelyard.api.http.routing import ANY, Route
from steelyard_schema.account import APIResource
from steelyard_schema.answers import ArtifactURL, StorageSignedURL
from steelyard_schema.publication import PAGES


def upload_routes(resource: APIResource) -> Iterator[Route]:
    one, create = f"/v0/{resource}/{{id}}", Grant(resource, "create")
    yield Route(
        "GET", f"{one}/upload/{{path:path}}", create, uplink, "Where to upload a file", None, StorageSignedURL,
        errors=(400, 409, 422),
    )  # fmt: skip
    yield Route("POST", f"{one}/finalize", create, finalize, "Finish the upload")


def download_routes(kind: str, resource: APIResource) -> Iterator[Route]:
    check = Grant(resource, "data", published=kind in PAGES)
    yield Route(
        "GET", f"/v0/{resource}/{{id}}/downlinks", check, downlinks, "Where to download", None,
        list[ArtifactURL], errors=(400, 409),
    )  # fmt: skip


def object_routes() -> Iterator[Route]:
    path = "/v0/objects/{key:path}"
    yield Route(
        "PUT", path, SignedUrl(), objects.put, "Upload a file, with a signed URL", media="", errors=(409,)
    )
    yield Route(
        "GET",
        path,
        SignedUrl(),
        objects.get,
        "Download a file, with a signed URL",
        media=ANY,
        partial=True,
        errors=(409,),
    )
