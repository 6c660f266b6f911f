"""Tests of the frames in which pages of other people's programs are opened."""

from pathlib import Path

from steelyard.cli.pages import write_frame


def test_a_page_of_others_is_opened_where_it_runs_nothing(tmp_path: Path) -> None:
    page = tmp_path / "a page" / "index.html"
    page.parent.mkdir()
    page.write_text("<script>alert()</script>")
    frame = write_frame(page, "safetycases")
    assert frame.parent == tmp_path
    # Without a value, the attribute takes every right from the page.
    assert '<iframe sandbox src="a%20page/index.html"></iframe>' in frame.read_text()
