"""Tests that the pages for contributors name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {
    "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md",
    "architecture": ROOT / "docs" / "architecture.md",
}


def named_paths(text: str) -> set[str]:
    return set(re.findall(r"`((?:src|packages|tests|docs|benchmarks)/[\w/.-]*)`", text))


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_the_page_exists(page: str) -> None:
    missing = sorted(path for path in named_paths(PAGES[page].read_text()) if not (ROOT / path).exists())
    assert not missing


def test_every_link_of_the_page_leads_somewhere() -> None:
    links = re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", PAGES["CONTRIBUTING.md"].read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_page_names_enough_paths_for_these_tests_to_mean_something() -> None:
    assert len(named_paths(PAGES["CONTRIBUTING.md"].read_text())) > 30


def test_the_architecture_names_every_package_and_module() -> None:
    source = ROOT / "src" / "steelyard"
    parts = {path.name for path in source.iterdir() if (path / "__init__.py").exists()}
    parts |= {path.name for path in source.glob("[a-z]*.py") if not path.name.startswith("test_")}
    named = set(re.findall(r"`([\w.]+)`", PAGES["architecture"].read_text().partition("## Folders")[2]))
    assert sorted(parts - named) == []
