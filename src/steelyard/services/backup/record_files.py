"""The files of the archive: records as lines of JSON, compressed, with a count and a digest at the end.

A file is never changed. Whatever is cut off it, or altered in it, is noticed when it is read.
"""

import base64
import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from steelyard.broker.log import STATE, Record
from steelyard.services.backup.compressed import TooLargeUnpacked, unpack_gzip
from steelyard_common.errors import Refused
from steelyard_common.types import Json

FORMAT = 1
FILE_LIMIT = 128 << 20
"""Bytes of a file's content: several times what any writer of ours puts into one."""
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)


class Damaged(Refused):
    """A file of a backup or an export is missing, cut short or altered; the message names it."""


@dataclass(frozen=True)
class Entry:
    """A record, with the epoch of the log that it was read from."""

    epoch: int
    record: Record

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and offset: of two entries of one key, the higher one is the newer."""
        return self.epoch, self.record.offset


def encode(head: Mapping[str, Any], entries: Sequence[Entry]) -> bytes:
    """The bytes of a file; equal content gives equal bytes."""
    lines = [orjson.dumps({"format": FORMAT, **head}), *(orjson.dumps(_to_json(entry)) for entry in entries)]
    body = b"\n".join(lines) + b"\n"
    foot = {"records": len(entries), "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + orjson.dumps(foot) + b"\n", compresslevel=6, mtime=0)


def decode(data: bytes, name: str) -> tuple[Json, list[Entry]]:
    """Head and records of a file. Raises Damaged, which names it."""
    try:
        content = unpack_gzip(data, FILE_LIMIT)
        body, _, last = content.rstrip(b"\n").rpartition(b"\n")
        body += b"\n"
        foot = orjson.loads(last)
        if foot["sha256"] != hashlib.sha256(body).hexdigest():
            raise Damaged(f"{name}: is damaged: its content has another SHA-256 than it says")
        lines = body.splitlines()
        head: Json = orjson.loads(lines[0])
        if head["format"] > FORMAT:
            raise Damaged(f"{name}: has format {head['format']}, which a newer version of Steelyard reads")
        entries = [_read(orjson.loads(line)) for line in lines[1:]]
        if len(entries) != foot["records"]:
            raise Damaged(f"{name}: is damaged: it has {len(entries)} records of {foot['records']}")
    except TooLargeUnpacked as error:
        raise Damaged(f"{name}: {error}, and is no file of a backup") from error
    except (EOFError, OSError, zlib.error) as error:
        raise Damaged(f"{name}: is damaged or cut short: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Damaged(f"{name}: is damaged: it is not a file of a backup") from error
    return head, entries


def _to_json(entry: Entry) -> Json:
    record = entry.record
    content: Json = {
        "epoch": entry.epoch,
        "partition": record.partition,
        "offset": record.offset,
        "key": record.key,
        "written": (record.written - _ZERO) // timedelta(microseconds=1),
        "headers": dict(record.headers),
    }
    if record.topic != STATE:
        content["topic"] = record.topic
    if record.value is not None:
        try:
            content["value"] = record.value.decode()
        # What is not text was written by no part of Steelyard, and is kept all the same.
        except UnicodeDecodeError:
            content["bytes"] = base64.b64encode(record.value).decode()
    return content


def _read(content: Json) -> Entry:
    value = content.get("value")
    data = base64.b64decode(content["bytes"]) if "bytes" in content else value.encode() if value else None
    if value == "":
        data = b""
    record = Record(
        content.get("topic", STATE),
        content["partition"],
        content["offset"],
        content["key"],
        data,
        content["headers"],
        _ZERO + timedelta(microseconds=content["written"]),
    )
    return Entry(content["epoch"], record)
