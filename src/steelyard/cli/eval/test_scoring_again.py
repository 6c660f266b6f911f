"""Runs that are scored by several rubrics, and more than once: each is printed and kept, and so is a signature."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from steelyard.cli.eval.wording import headline_lines
from steelyard.cli.main import app
from steelyard_evaluation.report.evidence.attestation import key_ids
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run


@pytest.fixture
async def scored(tmp_path: Path) -> Path:
    """A run of four rows, scored by exact-match."""
    async with endpoint() as server:
        request = make_request(
            write_prompts(tmp_path / "p.parquet", 4), server.url, rubrics=(RubricSpec("exact-match"),)
        )
        await run(request, tmp_path / "run", RunContext(environment={}))
    return tmp_path / "run"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A file with a key to sign with."""
    path = tmp_path / "key.pem"
    private = Ed25519PrivateKey.generate()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


async def command(*words: object) -> str:
    """The output of a command that ends well."""
    done = await asyncio.to_thread(CliRunner().invoke, app, ["eval", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


async def test_a_further_rubric_is_added_and_every_headline_printed(scored: Path) -> None:
    output = await command("score", scored, "--rubric", "contains?target=prompt")
    assert "exact-match: Of 4 answers, 100 % were right" in output
    assert "contains?target=prompt: Of 4 answers, 0 % were right" in output
    shown = await command("show", scored)
    assert "exact-match: Of 4 answers, 100 % were right" in shown
    assert "contains?target=prompt: Of 4 answers, 0 % were right" in shown
    assert (scored / "scores-contains.parquet").exists()


async def test_the_same_rubric_is_there_once(scored: Path) -> None:
    output = await command("score", scored, "--rubric", "exact-match", "--rubric", "exact-match")
    assert output.startswith("Of 4 answers, 100 % were right")
    assert [spec.reference for spec in RunFolder(scored).request().rubrics] == ["exact-match"]


async def test_only_the_rubrics_that_are_named_where_that_is_asked_for(scored: Path) -> None:
    await command("score", scored, "--rubric", "contains", "--only")
    assert (open_run(scored).numbers or {})["scoring"]["rubrics"] == ["contains"]


async def test_a_repeated_run_keeps_the_rubrics_and_prints_all(scored: Path) -> None:
    request = replace(RunFolder(scored).request(), rubrics=(RubricSpec("contains"),))
    result = await run(request, scored, RunContext(environment={}))
    assert [rubric for rubric, _ in result.headlines] == ["exact-match", "contains"]
    first, second = headline_lines(result.headlines)
    assert first.startswith("exact-match: Of 4 answers")
    assert second.startswith("contains: Of 4 answers")


async def test_a_signature_stays_with_the_same_report_and_is_missed_aloud_after_a_change(
    scored: Path, key: Path
) -> None:
    await command("score", scored, "--sign-key", key)
    signed = (scored / "attestation.json").read_bytes()
    assert len(key_ids(signed)) == 1
    again = await command("score", scored)
    assert (scored / "attestation.json").read_bytes() == signed
    assert "warning" not in again
    changed = await command("score", scored, "--rubric", "contains")
    assert (
        f"warning: the report changed, and what key {key_ids(signed)[0][:12]}… had signed is gone" in changed
    )
    assert key_ids((scored / "attestation.json").read_bytes()) == []
