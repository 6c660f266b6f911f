"""Checks the signature of a report or an audit in its `attestation.json`; without a key, says that no signature was
checked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard_evaluation.report.evidence.attestation import BadAttestation, key_id, key_ids, read_payload
from steelyard_evaluation.report.evidence.files import Check, fault, read_bytes
from steelyard_evaluation.report.evidence.report_statement import ATTESTATION

UNNOTICED = "a change of files and digests together is not noticed"


@dataclass(frozen=True)
class AttestationCheck:
    """The attestation in `folder`, the key that must have signed it, and the statement that it must contain.

    `expected` gets the statement that is there: what it says of a page that is not here can only be believed.
    """

    folder: Path
    key: Ed25519PublicKey | None
    expected: Callable[[bytes], bytes]

    @cached_property
    def data(self) -> bytes | None:
        return read_bytes(self.folder / ATTESTATION)


def say_who_vouches(signature: AttestationCheck) -> Iterator[Check]:
    """Say, if no key is given, what the digests are worth. This comes first, because all other checks rest on them."""
    if signature.key is not None:
        return
    signers = [] if signature.data is None else key_ids(signature.data)
    if signers:
        names = ", ".join(f"{signer[:12]}…" for signer in signers)
        unchecked = f"the signature by the key {names} is not checked: give the public key with --key FILE"
    else:
        unchecked = "there is no signature"
    yield Check(f"{unchecked}. Without one that is checked, {UNNOTICED}", "unchecked")


def check_attestation(signature: AttestationCheck) -> Iterator[Check]:
    """Check that the statement is about these files and, if a key is given, signed by it."""
    data, key = signature.data, signature.key
    if data is None:
        yield Check(f"{ATTESTATION}: there is none", "unchecked" if key is None else "fault")
        return
    try:
        payload, _ = read_payload(data, key)
    except BadAttestation as error:
        yield fault(f"{ATTESTATION}: {error}")
        return
    try:
        right = payload == signature.expected(payload)
    # The numbers may have been edited to anything; then they are not what was signed.
    except (LookupError, TypeError, ValueError):
        right = False
    yield (
        Check(f"{ATTESTATION}: is about these files")
        if right
        else fault(f"{ATTESTATION}: is not the statement about these files")
    )
    if key is not None:
        yield Check(f"{ATTESTATION}: is signed by the key {key_id(key)[:12]}…")
