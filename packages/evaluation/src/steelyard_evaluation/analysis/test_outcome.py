"""Tests of what a step believes of the outcome file, which users' code can write too."""

from pathlib import Path

import orjson
import pytest

from steelyard_evaluation.analysis.outcome import Outcome, read_outcome


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.write_bytes(orjson.dumps({"code": "Done", "message": "x" * 100_000, "permanent": True}))
    assert read_outcome(path) == Outcome("Done", "x" * 4096)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"code": "Done"}', b" " * (2 << 20)])
def test_what_is_no_outcome_counts_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "outcome.json"
    path.write_bytes(content)
    assert read_outcome(path) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(orjson.dumps({"code": "Done", "message": "", "permanent": True}))
    (tmp_path / "outcome.json").symlink_to(tmp_path / "other")
    assert read_outcome(tmp_path / "outcome.json") is None
