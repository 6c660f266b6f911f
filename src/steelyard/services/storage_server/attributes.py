"""Attributes that S3 gives an object: an ETag that follows from its file, and a client's metadata.

Metadata (`x-amz-meta-…`) are an extended attribute of the file, so that its content stays as any other writer would
have written it. By them a client that creates an object, and loses the answer, knows its own object. A file system
without extended attributes keeps none, and such a client then reads that the object was there.
"""

import errno
import json
import os
from collections.abc import Mapping

from steelyard.services.storage_server.faults import S3Error

PREFIX = "x-amz-meta-"
MOST_METADATA_BYTES = 2048
"""S3's own limit for names and values together."""
_ATTRIBUTE = "user.steelyard.metadata"
_NO_ATTRIBUTES = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA, errno.EPERM, errno.ENOSYS}


def etag(facts: os.stat_result) -> str:
    """Return the ETag of a file. No write changes a file in place, so that another content has another one.

    It has a `-`, by which clients know that it is not an MD5.
    """
    return f"{facts.st_ino:x}-{facts.st_size:x}-{facts.st_mtime_ns:x}"


def parse_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a request. Raises S3Error."""
    metadata = {name: value for name, value in headers.items() if name.startswith(PREFIX)}
    if sum(len(name) - len(PREFIX) + len(value) for name, value in metadata.items()) > MOST_METADATA_BYTES:
        raise S3Error("MetadataTooLarge", f"The metadata have more than {MOST_METADATA_BYTES} bytes.")
    return metadata


def store_metadata(descriptor: int, metadata: Mapping[str, str]) -> None:
    """Write metadata to a file that is being written. Raises OSError."""
    if not metadata:
        return
    try:
        os.setxattr(descriptor, _ATTRIBUTE, json.dumps(metadata).encode())
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise


def load_metadata(descriptor: int) -> dict[str, str]:
    """Return the metadata of a file; none for one that another writer has written. Raises OSError."""
    try:
        return dict(json.loads(os.getxattr(descriptor, _ATTRIBUTE)))
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        return {}
