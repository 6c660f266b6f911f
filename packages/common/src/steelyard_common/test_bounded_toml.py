"""TOML that is too long or too deep is refused with one line; what people write is read."""

import time
import tomllib
from pathlib import Path

import pytest

from steelyard_common.bounded_toml import BYTES, DEPTH, BadToml, load, read

BOMBS = {
    "lists": "a = " + "[" * 100_000,
    "closed lists": "a = " + "[" * 100_000 + "]" * 100_000,
    "lists of lines": "a = " + "[\n" * 100_000,
    "inline tables": "a = " + "{a = " * 100_000,
    "parts of a key": "a." * 400_000 + "a = 1",
    "parts of a key in quotes": '"a".' * 200_000 + "a = 1",
    "parts of a key in a list": "a = [{" + "a." * 400_000 + "a = 1}]",
    "parts of a table's name": "[" + "a." * 400_000 + "a]",
    "parts of a list's name": "[[" + "a." * 400_000 + "a]]",
    "lists after a text": 'a = """\n"]"]\\"""]""""\nb = ' + "[" * 100_000,
    "lists after a plain text": "a = '''\\'''\nb = '\\'\nc = " + "[" * 100_000,
    "lists after a comment": "# \"'''\na = " + "[" * 100_000,
    "a long number": "a = " + "1" * 100_000,
    "a text without end": 'a = """' + '"x' * 100_000,
    "lines after a text without end": 'a = """' + '\\"""\n' * 100_000,
    "quotes after a text without end": 'a = "' + '\\"' * 100_000,
    "pairs in a text without end": 'a = """' + "\\a" * 100_000,
    "too many bytes": "#" * (BYTES + 1),
    "not TOML": "a = ]",
}
GOOD = {
    "brackets in texts": "a = '" + "[." * 1000 + "'\nb = \"" + '[{\\"' * 1000 + '"\n',
    "brackets in long texts": "a = '''" + "[.\n" * 1000 + "'''\nb = \"\"\"" + '[{\\"""\n""' * 1000 + '"""\n',
    "brackets in a comment": "# " + "[" * 1000 + "\na = 1",
    "many lists": "a = [" + "[1.5, 2.5], " * 1000 + "]",
    "many tables": "".join(f"[a.b{n}]\nc = 1\n" for n in range(1000)),
    "the most levels": "a = " + "[" * DEPTH + "]" * DEPTH,
    "the most parts": "a." * (DEPTH - 1) + "a = 1",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_what_is_too_long_or_too_deep_is_refused_with_one_line(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadToml) as raised:
        load(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_what_people_write_is_read(text: str) -> None:
    assert load(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a" * (BYTES + 1), f"more than {BYTES} bytes"),
        (b"a = '\xff'", "is not UTF-8: invalid start byte at byte 5"),
    ],
    ids=["too many bytes", "not UTF-8"],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "images.toml"
    path.write_bytes(content)
    with pytest.raises(BadToml, match=fault):
        read(path)


def test_lines_of_windows_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    path.write_bytes(b"a = 1\r\nb = 2\r\n")
    assert load(read(path)) == {"a": 1, "b": 2}
