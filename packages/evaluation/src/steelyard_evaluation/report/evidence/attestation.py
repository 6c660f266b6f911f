"""The attestation of a report or an audit: an in-toto Statement v1 with the predicate "test result", signed on request.

The statement names the report's files by SHA-256 (subjects), and the files and rubrics that it was made from
(configuration). It is a pure function of them, so the same report has the same statement. A signed statement is in a
DSSE envelope. Ed25519 uses no random numbers, so the same key gives the same envelope.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge, parse_json, read_whole

if TYPE_CHECKING:  # most reports are not signed: cryptography is imported where a key is used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD = "application/vnd.in-toto+json"


class BadAttestation(ValueError):
    """The file is not an attestation of Steelyard, or its signature is not the key's."""


@dataclass(frozen=True)
class NamedFile:
    """A file with its name and digest."""

    name: str
    sha256: str

    @classmethod
    def from_content(cls, name: str, content: bytes | str) -> "NamedFile":
        """Return the file with this content; a text is its digest, where that is known already."""
        return cls(name, content if isinstance(content, str) else hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class CheckResults:
    """Names of the checks that passed, passed with a warning, and failed."""

    passed: tuple[str, ...]
    warned: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def result(self) -> Literal["PASSED", "WARNED", "FAILED"]:
        return "FAILED" if self.failed else "WARNED" if self.warned else "PASSED"


def statement(
    subjects: Sequence[NamedFile], configuration: Sequence[NamedFile], outcome: CheckResults
) -> bytes:
    """Return the statement as JSON; equal arguments give equal bytes."""
    return _json(
        {
            "_type": STATEMENT,
            "subject": [_descriptor(subject) for subject in subjects],
            "predicateType": PREDICATE,
            "predicate": {
                "result": outcome.result,
                "configuration": [_descriptor(item) for item in configuration],
                "passedTests": list(outcome.passed),
                "warnedTests": list(outcome.warned),
                "failedTests": list(outcome.failed),
            },
        }
    )


def envelope(payload: bytes, key: "Ed25519PrivateKey") -> bytes:
    """Return the payload in a DSSE envelope, signed with the key."""
    signature = {
        "keyid": key_id(key.public_key()),
        "sig": _base64(key.sign(_pre_authentication_encoding(payload))),
    }
    return _json({"payload": _base64(payload), "payloadType": PAYLOAD, "signatures": [signature]})


def read_payload(data: bytes, key: "Ed25519PublicKey | None" = None) -> tuple[bytes, bool]:
    """Return the statement in an attestation, and whether it is signed.

    Raises BadAttestation for a file that is not an attestation and, with a key, unless one signature is the key's.
    """
    try:
        document: dict[str, JsonValue] = parse_json(data)
        if "payload" not in document:
            if key is not None:
                raise BadAttestation("is not signed")
            return data, False
        payload = base64.b64decode(document["payload"], validate=True)
        signatures = [
            (str(signature["keyid"]), base64.b64decode(signature["sig"], validate=True))
            for signature in document["signatures"]
        ]
    except (TooLarge, orjson.JSONDecodeError, binascii.Error, TypeError, KeyError, ValueError) as error:
        if isinstance(error, BadAttestation):
            raise
        raise BadAttestation(f"is not an attestation: {type(error).__name__}: {error}") from error
    # Written again, it must be the same bytes: else two files of different bytes, one with fields that no signature
    # covers, would both pass as the report's attestation.
    encoded = [{"keyid": keyid, "sig": _base64(signature)} for keyid, signature in signatures]
    if _json({"payload": _base64(payload), "payloadType": PAYLOAD, "signatures": encoded}) != data:
        raise BadAttestation("is not in the form of an envelope that Steelyard writes")
    if key is not None:
        _check_signature(payload, signatures, key)
    return payload, True


def read_stated_digest(payload: bytes, name: str) -> str:
    """Return the digest that a statement has for a file; empty for a file that it does not name."""
    try:
        subjects = {item["name"]: item["digest"]["sha256"] for item in orjson.loads(payload)["subject"]}
        return str(subjects.get(name, ""))
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return ""


def key_ids(data: bytes) -> list[str]:
    """Return the ids of the keys that an envelope names as its signers; no signature is checked."""
    try:
        signatures = parse_json(data).get("signatures", [])
        return [str(signature["keyid"]) for signature in signatures]
    except (TooLarge, orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return []


def key_id(key: "Ed25519PublicKey") -> str:
    """Return the id of a key, as securesystemslib makes it: SHA-256 of the key as canonical JSON."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    described = {"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}
    # Sorted and without blanks, which for these texts is the canonical JSON that securesystemslib digests.
    return hashlib.sha256(orjson.dumps(described, option=orjson.OPT_SORT_KEYS)).hexdigest()


def signing_key(path: Path) -> "Ed25519PrivateKey":
    """Read the private key in a PEM file. Raises UsageError for any other content."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(read_whole(path), password=None)
    # TypeError is what the library raises for a key with a password.
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"--sign-key {path}: {_reason(error)}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--sign-key {path}: should be an Ed25519 key, not {type(key).__name__}")
    return key


def public_key(path: Path) -> "Ed25519PublicKey":
    """Read the public key in a PEM file. Raises UsageError for any other content."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(read_whole(path))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"--key {path}: {_reason(error)}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"--key {path}: should be an Ed25519 key, not {type(key).__name__}")
    return key


def _reason(error: Exception) -> str:
    return (
        (error.strerror or str(error))
        if isinstance(error, OSError)
        else "is not a key in PEM without password"
    )


def _check_signature(
    payload: bytes, signatures: Sequence[tuple[str, bytes]], key: "Ed25519PublicKey"
) -> None:
    from cryptography.exceptions import InvalidSignature

    own = [signature for keyid, signature in signatures if keyid == key_id(key)]
    if not own:
        raise BadAttestation("is not signed by this key")
    # Every signature that names this key has to be right: one that is wrong was put there by another party.
    for signature in own:
        try:
            key.verify(signature, _pre_authentication_encoding(payload))
        except InvalidSignature:
            raise BadAttestation("its signature is not the key's") from None


def _pre_authentication_encoding(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: type and payload with their lengths, so that they cannot be confused."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def _descriptor(file: NamedFile) -> Mapping[str, JsonValue]:
    return {"name": file.name, "digest": {"sha256": file.sha256}}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _json(value: Mapping[str, JsonValue]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
