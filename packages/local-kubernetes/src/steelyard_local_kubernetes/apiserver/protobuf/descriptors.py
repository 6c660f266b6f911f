"""The messages of the built-in kinds as Kubernetes 1.34 publishes them (`protobuf.json.gz`); read when first needed."""

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson

_FILE = Path(__file__).with_name("protobuf.json.gz")
REPEATED, MAP, POINTER, DROP_ZERO, INLINE = 1, 2, 4, 8, 16
SCALARS = frozenset("syrilbd")
"""Letters of types: string, bytes in base64, bytes as they are, int32, int64, bool, double."""
META = "k8s.io.apimachinery.pkg.apis.meta.v1"
UNKNOWN = "k8s.io.apimachinery.pkg.runtime.Unknown"


class Field(NamedTuple):
    """One field of a message: its names in JSON and in Go, a letter of `SCALARS` or the message of its type, flags."""

    json: str
    go: str
    type: "str | Message"
    flags: int


class Message(NamedTuple):
    name: str
    fields: dict[int, Field]

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


@cache
def _tables() -> tuple[dict[str, str], dict[str, Message]]:
    """Packages by `apiVersion`, and messages by full name."""
    content = orjson.loads(gzip.decompress(_FILE.read_bytes()))
    messages = [Message(name, {}) for name, _ in content["messages"]]
    for message, (_, rows) in zip(messages, content["messages"], strict=True):
        for number, json, go, kind, flags in rows:
            value = kind if isinstance(kind, str) else messages[kind]
            message.fields[number] = Field(json, go or json[:1].upper() + json[1:], value, flags)
    return content["packages"], {message.name: message for message in messages}


def kind_message(api_version: str, kind: str) -> Message | None:
    """The message of a kind; options of requests belong to every group."""
    packages, messages = _tables()
    own = messages.get(f"{packages.get(api_version, '')}.{kind}")
    return own or messages.get(f"{META}.{kind}")


def message_by_name(name: str) -> Message:
    return _tables()[1][name]
