"""The end of a command: it names the page and what to try next."""

from pathlib import Path

import pytest

from steelyard.cli.next_steps import FinishedResource, closing_words
from steelyard.local.state import StateDir


def test_the_page_its_headline_and_three_things_to_try_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "state" / "storage" / "reports" / "r"
    output.mkdir(parents=True)
    (output / "report.json").write_text('{"headline": "Of 10 answers, 90 % were right."}')
    ended = [
        FinishedResource("Evaluation", "evaluation-e", "", 3.0),
        FinishedResource("Report", "report-r", f"file://{output}", 1.5),
    ]
    text = closing_words(ended, StateDir(tmp_path / "state"), Path("examples/digits"))
    assert "2 resources finished in 4.5 s." in text
    assert "Of 10 answers, 90 % were right." in text
    assert "Report: state/storage/reports/r/report.html" in text
    assert "kubectl --kubeconfig state/kubeconfig describe evaluation evaluation-e" in text
    assert [line.strip()[:2] for line in text.splitlines() if line.strip()[:2] in {"1.", "2.", "3."}] == [
        "1.",
        "2.",
        "3.",
    ]


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"headline": ' + b"[" * 300_000 + b"]" * 300_000 + b"}", b" " * (33 << 20) + b"{}"],
    ids=["cut off", "a list", "too many lists", "too many bytes"],
)
def test_a_report_that_is_none_or_too_large_has_no_headline(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "report.json").write_bytes(content)
    text = closing_words(
        [FinishedResource("Report", "r", f"file://{tmp_path}", 1.0)], StateDir(tmp_path), Path("x")
    )
    assert f"in 1.0 s.\n\n\nReport: {tmp_path}/report.html" in text


def test_a_folder_without_a_report_is_closed_too(tmp_path: Path) -> None:
    text = closing_words([FinishedResource("Model", "m", "", 1.0)], StateDir(tmp_path), Path("mine"))
    assert "Report:" not in text
    assert "steelyard status" in text
