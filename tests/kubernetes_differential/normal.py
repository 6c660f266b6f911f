"""Answers without what differs between any two runs: uids, versions, times, generated names, tokens, addresses."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard_common.types import Json, JsonValue

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TOKEN = re.compile(r"eyJ[\w-]{10,}\.[\w-]+\.[\w-]+")
ADDRESS = re.compile(r"\b(10\.96|127\.200)\.\d+\.\d+\b")  # of Services, on either server
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?", re.DOTALL)
VERSION = re.compile(r"(resourceVersion\W{1,7}|current: |in record \(|in precondition \()\d+")
ACCESS = re.compile(r"kube-api-access-\w{5}")
NOW = timedelta(days=2)
OWN_PORT: Json = {"name": "https", "port": 443, "protocol": "TCP"}  # of the Service `kubernetes`


def normal(answers: list[Json], names: dict[str, str], *, managed: bool) -> list[Json]:
    """The answers to a case with its names, in a form that is the same on every run of one server."""
    generated: dict[str, str] = {}
    for answer in answers:
        _generated_names(answer, generated)
    uids: dict[str, str] = {}
    for answer in answers:
        _names_of_uids(answer, uids)
    last: dict[str, str] = {}

    def text(value: str) -> str:
        value = UUID.sub(lambda match: f"uid of {uids.get(match[0], 'another')}", value)
        for name, shown in generated.items():
            value = value.replace(name, shown)
        value = TIME.sub(_time, value)
        for name in ("hooks", "bundle"):
            if name in names:
                value = value.replace(names[name], name.upper())
        value = CERTIFICATE.sub("CERTIFICATE", value.replace(names["ns"], "NS"))
        value = ACCESS.sub("kube-api-access-GENERATED", VERSION.sub(r"\1VERSION", value))
        return ADDRESS.sub("ADDRESS", TOKEN.sub("TOKEN", value))

    def version(metadata: Json) -> str:
        """Say whether an object is as it was when it was last seen; a list's version says nothing."""
        uid, number = str(metadata.get("uid", "")), str(metadata["resourceVersion"])
        if not uid:
            return "version"
        before, last[uid] = last.get(uid), number
        return "same version" if before == number else "new version"

    return [_walk(answer, text, version, managed) for answer in answers]


def _walk(value: JsonValue, text: Callable[[str], str], version: Callable[[Json], str], managed: bool) -> Any:
    match value:
        case str():
            return text(value)
        case list():
            return [_walk(below, text, version, managed) for below in value]
        case dict():
            content: Json = {}
            for key, below in value.items():
                match key:
                    case "managedFields" if not managed:
                        continue
                    case "resourceVersion" if isinstance(below, str) and below.isdigit():
                        content[key] = version(value)
                    case "continue" if below:
                        content[key] = "continue"
                    case "targetPort" if value == {**OWN_PORT, "targetPort": below} and isinstance(
                        below, int
                    ):
                        content[key] = "port of the server"
                    case "nodePort" if isinstance(below, int) and 30000 <= below <= 32767:
                        content[key] = "node port"
                    case _:
                        content[text(key)] = _walk(below, text, version, managed)
            return content
    return value


def _time(match: re.Match[str]) -> str:
    """Times of this run; those that a case holds stay."""
    try:
        when = datetime.fromisoformat(match[0])
    except ValueError:
        return match[0]
    if abs(datetime.now(UTC) - when) > NOW:
        return match[0]
    return "time in microseconds" if match[1] else "time"


def _generated_names(value: JsonValue, generated: dict[str, str]) -> None:
    if isinstance(value, list):
        for below in value:
            _generated_names(below, generated)
    elif isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            prefix, name = metadata.get("generateName"), metadata.get("name")
            if prefix and isinstance(name, str) and name.startswith(prefix) and len(name) > len(prefix):
                generated[name] = f"{prefix}GENERATED"
        for below in value.values():
            _generated_names(below, generated)


def _names_of_uids(value: JsonValue, uids: dict[str, str]) -> None:
    if isinstance(value, list):
        for below in value:
            _names_of_uids(below, uids)
    elif isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and "uid" in metadata:
            uids[str(metadata["uid"])] = str(metadata.get("name"))
        for below in value.values():
            _names_of_uids(below, uids)
