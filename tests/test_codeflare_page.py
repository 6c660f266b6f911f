"""The page for users of codeflare-sdk: it names each public name and parameter of the versions that are listed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.ray.names import names_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/from-codeflare-sdk.md").read_text()
LISTED = sorted((ROOT / "tests/engines/ray/listed").glob("*.txt"))


def words_of(text: str) -> set[str]:
    """Return the identifiers in the pieces of code of a text."""
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def left(line: str) -> str:
    """Return what a line says about codeflare-sdk: of a table's row its first cell."""
    return line.split("|")[1] if line.startswith("|") else line


def places() -> Iterator[set[str]]:
    """Yield the words of each section of a class, and of each row or paragraph."""
    for section in re.split(r"^#+ ", PAGE, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        if title.isidentifier():
            yield {title} | {word for line in body.splitlines() for word in words_of(left(line))}
        yield from (words_of(text) for text in body.split("\n\n") if not text.startswith("|"))
        yield from (words_of(left(row)) for row in body.splitlines() if row.startswith("|"))


@pytest.mark.parametrize("listing", LISTED, ids=lambda path: path.stem)
def test_each_name_and_parameter_is_mapped(listing: Path) -> None:
    mapped = list(places())
    missing = []
    for line in listing.read_text().splitlines():
        needed = set(re.findall(r"\w+", line))
        if not any(needed <= words for words in mapped):
            missing.append(line)
    assert missing == []
    assert len(listing.read_text().splitlines()) > 70


def test_names_are_read_from_the_source_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text("from .jobs import Job, State, submit\n")
    (tmp_path / "__init__.py").write_text("try:\n    from elsewhere import login\nexcept ImportError: ...\n")
    source = (
        "class Job:\n    name: str\n    def stop(self, now, *, force=False): ...\n    def _x(self): ...\n"
    )
    source += "class State:\n    DONE = 1\ndef submit(job, wait=True): ...\ndef hidden(): ...\n"
    (tmp_path / "ray/jobs.py").write_text(source)
    assert list(names_of(tmp_path)) == [
        "Job: name",
        "Job.stop: now, force",
        "State: DONE",
        "login",
        "submit: job, wait",
    ]
