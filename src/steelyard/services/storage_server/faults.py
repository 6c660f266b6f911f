"""Errors of S3: what a client reads when its request fails, and how the store's own errors are named there."""

import logging
from collections.abc import Mapping

from steelyard_evaluation.storage.store import (
    BadLocation,
    ObjectExists,
    ObjectMissing,
    StorageError,
    StorageFull,
)

_log = logging.getLogger(__name__)
STATUSES: Mapping[str, int] = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "EntityTooLarge": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedXML": 400,
    "MetadataTooLarge": 400,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
}
"""HTTP statuses of the codes that this server answers."""


class S3Error(Exception):
    """A request that failed; `code` is one of S3's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUSES[code]


def translate_error(error: StorageError) -> S3Error:
    """Return the store's error in S3's words."""
    match error:
        case ObjectMissing():
            return S3Error("NoSuchKey", "The specified key does not exist.")
        case ObjectExists():
            return S3Error("PreconditionFailed", "There is an object of this key.")
        case BadLocation():
            return S3Error("InvalidArgument", str(error))
        case StorageFull():
            return S3Error("ServiceUnavailable", "The storage is full.")
    if isinstance(error.__cause__, IsADirectoryError | NotADirectoryError):
        return S3Error("InvalidRequest", "A key cannot be an object and a folder of others at once.")
    _log.error("%s", error)
    return S3Error("InternalError", "The storage cannot be read or written.")
