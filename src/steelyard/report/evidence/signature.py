"""Checks who vouches for a report or an audit by its `attestation.json`, and says so where nobody does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.report.evidence.attestation import BadAttestation, key_id, key_ids, payload_of
from steelyard.report.evidence.files import Check, fault, read_bytes
from steelyard.report.evidence.report_statement import ATTESTATION

UNNOTICED = "whoever changes files and digests together is not noticed"


@dataclass(frozen=True)
class Signature:
    """The attestation in `folder`, the key that must have signed it, and the statement that should stand in it."""

    folder: Path
    key: Ed25519PublicKey | None
    expected: Callable[[], bytes]

    @cached_property
    def data(self) -> bytes | None:
        return read_bytes(self.folder / ATTESTATION)


def vouching(signature: Signature) -> Iterator[Check]:
    """Says, where no key is given, what the digests are worth: first, because all else rests on them."""
    if signature.key is not None:
        return
    signers = [] if signature.data is None else key_ids(signature.data)
    if signers:
        names = ", ".join(f"{signer[:12]}…" for signer in signers)
        how = f"{ATTESTATION} says that it is signed by {names}; give the signer's public key with --key FILE"
    else:
        how = "it is not signed"
    yield Check(f"nobody vouches for these digests: {how}. Until then {UNNOTICED}", "left out")


def attested(signature: Signature) -> Iterator[Check]:
    """Is the statement about these files, and signed by the key?"""
    data, key = signature.data, signature.key
    if data is None:
        yield Check(f"{ATTESTATION}: there is none", "left out" if key is None else "fault")
        return
    try:
        payload, _ = payload_of(data, key)
    except BadAttestation as error:
        yield fault(f"{ATTESTATION}: {error}")
        return
    try:
        right = payload == signature.expected()
    except (LookupError, TypeError, ValueError):
        right = False
    yield (
        Check(f"{ATTESTATION}: is about these files")
        if right
        else fault(f"{ATTESTATION}: is not the statement about these files")
    )
    if key is not None:
        yield Check(f"{ATTESTATION}: is signed by the key {key_id(key)[:12]}…")
