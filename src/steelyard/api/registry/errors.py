"""Errors as clients of registries read them: `{"errors": [{"code", "message", "detail"}]}`."""

import orjson
from starlette.responses import Response

from steelyard.api.http.errors import JSON, ApiError

PREFIX = "/v2/"
"""Beginning of every path of the registry."""
_CODES = {
    400: "UNSUPPORTED",
    401: "UNAUTHORIZED",
    403: "DENIED",
    404: "NAME_UNKNOWN",
    405: "UNSUPPORTED",
    413: "SIZE_INVALID",
    501: "UNSUPPORTED",
    503: "TOOMANYREQUESTS",
}
"""Codes of errors that are not the registry's own."""
TOKENS = f"{PREFIX}token"
"""Path at which a client of registries gets a bearer token for its credentials."""


class RegistryError(ApiError):
    """An error whose reason is a code of the specification."""


class BlobUnknown(RegistryError):
    """404: the repository has no such blob."""

    status, reason = 404, "BLOB_UNKNOWN"


class UploadUnknown(RegistryError):
    """404: there is no such upload; it may have been finished or given up."""

    status, reason = 404, "BLOB_UPLOAD_UNKNOWN"


class UploadInvalid(RegistryError):
    """416: the chunk does not begin where the upload ends."""

    status, reason = 416, "BLOB_UPLOAD_INVALID"


class RangeInvalid(RegistryError):
    """416: no byte of the blob is in the range."""

    status, reason = 416, "UNSUPPORTED"


class DigestInvalid(RegistryError):
    """400: the digest cannot be read, or the content has another one."""

    status, reason = 400, "DIGEST_INVALID"


class ContentChanged(RegistryError):
    """409: the stored content is not that of its digest any more."""

    status, reason = 409, "DIGEST_INVALID"


class SizeInvalid(RegistryError):
    """400: the content is longer or shorter than announced."""

    status, reason = 400, "SIZE_INVALID"


class ManifestUnknown(RegistryError):
    """404: the repository has no such manifest."""

    status, reason = 404, "MANIFEST_UNKNOWN"


class ManifestInvalid(RegistryError):
    """400: the manifest cannot be read."""

    status, reason = 400, "MANIFEST_INVALID"


class ManifestBlobUnknown(RegistryError):
    """404: the manifest names content that was not pushed before."""

    status, reason = 404, "MANIFEST_BLOB_UNKNOWN"


class TagInvalid(RegistryError):
    """400: the tag, or a parameter of the list of tags, cannot be read."""

    status, reason = 400, "TAG_INVALID"


class Denied(RegistryError):
    """403: the artifact takes nothing more."""

    status, reason = 403, "DENIED"


class TooMany(RegistryError):
    """429: the repository has as many tags, uploads or chunks as it may have."""

    status, reason = 429, "TOOMANYREQUESTS"


def registry_response(error: ApiError, address: str) -> Response:
    """Return the response to a request of the registry, at this address, that raised an error."""
    code = error.reason if isinstance(error, RegistryError) else _CODES.get(error.status, "UNKNOWN")
    body = orjson.dumps({"errors": [{"code": code, "message": error.detail, "detail": None}]})
    headers = {**error.headers}
    if error.status == 401:
        # To clients that know `Basic` the realm is any text. Others take it for the address of tokens, whatever the
        # scheme; without one there, oras-py repeats the request for two minutes.
        headers["WWW-Authenticate"] = f'Basic realm="{address}{TOKENS}"'
    return Response(body, error.status, headers, JSON)
