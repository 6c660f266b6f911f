"""docs/evidence.md checks a signature with libraries of others, as it says."""

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.exceptions import VerificationError

from steelyard_evaluation.report.evidence.attestation import envelope
from steelyard_evaluation.report.evidence.test_attestation import KEY, OTHER, made
from tests.source import ROOT

PAGE = ROOT / "docs" / "evidence.md"


def test_the_page_checks_a_signature_by_libraries_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Path("public.pem").write_bytes(public)
    Path("attestation.json").write_bytes(envelope(made(), KEY))
    exec(code)
    assert "'report.html': 'aaaa" in capsys.readouterr().out
    Path("attestation.json").write_bytes(envelope(made(), OTHER))
    with pytest.raises(VerificationError):
        exec(code)
