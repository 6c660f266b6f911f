"""Attestations of reports: other tools read them, and every change is found."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from google.protobuf import json_format  # type: ignore[import-untyped]
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.evidence.attestation import (
    BadAttestation,
    CheckResults,
    NamedFile,
    envelope,
    key_id,
    key_ids,
    public_key,
    read_payload,
    signing_key,
    statement,
)

SUBJECTS = (NamedFile("report.html", "a" * 64), NamedFile("report.json", "b" * 64))
CONFIGURATION = (NamedFile("outputs/.steelyard/manifest.json", "c" * 64),)
OUTCOME = CheckResults(passed=("exact-match: every row is scored",), warned=("every row has an answer",))
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def made() -> bytes:
    return statement(SUBJECTS, CONFIGURATION, OUTCOME)


def test_in_totos_own_package_reads_the_statement() -> None:
    statement = Statement.copy_from_pb(json_format.Parse(made(), statement_pb2.Statement()))
    statement.validate()
    assert [(subject.name, subject.digest["sha256"]) for subject in statement.pb.subject] == [
        (subject.name, subject.sha256) for subject in SUBJECTS
    ]
    predicate = json.loads(made())["predicate"]
    result = json_format.ParseDict(predicate, test_result_pb2.TestResult())
    assert (result.result, list(result.warned_tests)) == ("WARNED", ["every row has an answer"])
    assert result.configuration[0].digest["sha256"] == "c" * 64


def test_securesystemslib_checks_the_envelope() -> None:
    signed = Envelope.from_dict(json.loads(envelope(made(), KEY)))
    key = SSlibKey.from_crypto(KEY.public_key())
    assert key.keyid == key_id(KEY.public_key())
    assert set(signed.verify([key], 1)) == {key.keyid}
    assert (signed.payload, signed.payload_type) == (made(), "application/vnd.in-toto+json")


def test_the_same_report_has_the_same_attestation() -> None:
    assert made() == made()
    assert envelope(made(), KEY) == envelope(made(), KEY)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (CheckResults(("a",)), "PASSED"),
        (CheckResults(("a",), ("b",)), "WARNED"),
        (CheckResults(("a",), ("b",), ("c",)), "FAILED"),
    ],
)
def test_the_result_is_the_worst_of_the_checks(outcome: CheckResults, result: str) -> None:
    assert json.loads(statement(SUBJECTS, (), outcome))["predicate"]["result"] == result


def test_a_statement_is_read_back() -> None:
    assert read_payload(made()) == (made(), False)
    assert read_payload(envelope(made(), KEY)) == (made(), True)
    assert read_payload(envelope(made(), KEY), KEY.public_key()) == (made(), True)


def test_anothers_signature_is_refused() -> None:
    with pytest.raises(BadAttestation, match="not signed by this key"):
        read_payload(envelope(made(), OTHER), KEY.public_key())
    with pytest.raises(BadAttestation, match="is not signed"):
        read_payload(made(), KEY.public_key())


def test_every_changed_byte_of_an_envelope_is_found() -> None:
    signed = envelope(made(), KEY)
    for place in range(0, len(signed), 3):
        changed = bytearray(signed)
        changed[place] ^= 1 << place % 7
        with pytest.raises(BadAttestation):
            read_payload(bytes(changed), KEY.public_key())


def test_a_payload_under_an_old_signature_is_refused() -> None:
    document = json.loads(envelope(made(), KEY))
    document["payload"] = base64.b64encode(made().replace(b"WARNED", b"PASSED")).decode()
    with pytest.raises(BadAttestation, match="not the key's"):
        read_payload(json.dumps(document, indent=2).encode() + b"\n", KEY.public_key())


def test_a_file_that_stands_for_too_much_names_no_signer() -> None:
    assert key_ids(envelope(made(), KEY)) == [key_id(KEY.public_key())]
    assert key_ids(b"[" * 300_000) == []


def test_keys_come_from_pem(tmp_path: Path) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert signing_key(private).private_bytes_raw() == KEY.private_bytes_raw()
    assert key_id(public_key(public)) == key_id(KEY.public_key())


@pytest.mark.parametrize("read", [signing_key, public_key])
def test_what_is_no_key_is_named(tmp_path: Path, read: type) -> None:
    path = tmp_path / "some.pem"
    with pytest.raises(UsageError, match=r"some\.pem: No such file"):
        read(path)
    path.write_text("no key")
    with pytest.raises(UsageError, match=r"some\.pem: is not a key in PEM"):
        read(path)
    other = generate_private_key(SECP256R1())
    path.write_bytes(
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        if read is signing_key
        else other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(UsageError, match="should be an Ed25519 key"):
        read(path)
