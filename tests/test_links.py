"""Links between the pages: each leads to a file and a heading, and every page can be reached from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def links(page: Path) -> list[tuple[Path, str | None]]:
    """Target and heading of each link to another page, or to a heading of the same page."""
    text = CODE.sub(lambda code: code[0] if "](" not in code[0] else "", page.read_text())
    return [
        ((page.parent / path if path else page).resolve(), heading) for path, heading in LINK.findall(text)
    ]


def anchors(page: Path) -> set[str]:
    """Anchors that GitHub makes of a page's headings."""
    headings = re.findall(
        r"^#+ (.+)$",
        re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE),
        re.MULTILINE,
    )
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = [
        f"{target.relative_to(ROOT)}#{heading}"
        for target, heading in links(page)
        if not target.exists() or (heading and target.suffix == ".md" and heading not in anchors(target))
    ]
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [target for target, _ in links(page) if target.suffix == ".md" and target.exists()]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_the_readme_names_every_subject() -> None:
    named = {target for target, _ in links(ROOT / "README.md")}
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page not in named] == []


def test_the_links_of_a_page_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two *words*: here\n\n[a](b.md#c) and [d](#e), not `[f](g)` nor [h](https://i.j)\n")
    assert links(page) == [(tmp_path / "b.md", "c"), (page, "e")]
    assert anchors(page) == {"two-words-here"}


REGISTRIES = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|npmjs\.(?:com|org)|crates\.io|hub\.docker\.com|docker\.io|ghcr\.io|quay\.io|gcr\.io|"
    r"nvcr\.io|mcr\.microsoft\.com|registry\.k8s\.io|ecr\.aws|proxy\.golang\.org|repo1?\.maven|rubygems\.org|anaconda\.org)"
)
"""Hosts of registries of packages and images. A page links the own page of a project, which stays where it is."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_the_host_of_a_registry(page: Path) -> None:
    assert REGISTRIES.findall(page.read_text()) == []


DIALECT = re.compile(r"\b(told|whoever|anew|befall\w*|likewise|of ours)\b", re.IGNORECASE)
"""Words that these pages do not use: a reader whose first language is another one stops at them."""


@pytest.mark.parametrize(
    "page", sorted({*PAGES} - {ROOT / "CHANGELOG.md"}), ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_is_in_plain_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert DIALECT.findall(text) == []
