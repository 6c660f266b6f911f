from pathlib import Path

import pytest

from tests.planted.bug import Bug, DoesNotApplyError, replace

SOURCE = """
class Ledger:
    def add(self, amount):
        # a comment
        if amount > 0:
            self.total += amount
        return self.total

    def clear(self):
        self.run(
            "DELETE FROM entries WHERE id = ?",
            self.id,
        )
        return self.total
"""


def test_code_is_located_within_its_function() -> None:
    assert (
        "return -1" in replace(SOURCE, "Ledger.add", "return self.total", "return -1").split("def clear")[0]
    )
    assert (
        "return -1" in replace(SOURCE, "Ledger.clear", "return self.total", "return -1").split("def clear")[1]
    )


def test_line_breaks_and_trailing_commas_do_not_matter() -> None:
    changed = replace(SOURCE, "Ledger.clear", 'self.run("DELETE FROM entries WHERE id = ?", self.id)', "pass")
    assert "        pass\n        return self.total" in changed


def test_several_lines_keep_their_indentation() -> None:
    changed = replace(
        SOURCE, "Ledger.add", "if amount > 0:\n    self.total += amount", "if amount:\n    self.total = 0"
    )
    assert "        if amount:\n            self.total = 0\n        return" in changed


def test_a_part_of_a_literal_can_be_changed() -> None:
    assert "WHERE 1" in replace(SOURCE, "", "WHERE id = ?", "WHERE 1")


@pytest.mark.parametrize(
    ("function", "old"), [("Ledger.remove", "pass"), ("Ledger.add", "x = 1"), ("", "return self.total")]
)
def test_code_that_is_not_there_once_is_refused(function: str, old: str) -> None:
    with pytest.raises(DoesNotApplyError):
        replace(SOURCE, function, old, "pass")


@pytest.mark.parametrize(
    ("new", "nothing"), [("return (\n    1,\n)  # one", True), ("return (2,)", False), ("", False)]
)
def test_a_change_of_layout_alone_changes_nothing(new: str, nothing: bool) -> None:
    assert Bug("name", (), Path("a.py"), "", (("return (1,)", new),)).changes_nothing is nothing
