"""Files that should be tables: their forms by name, their bytes, and the likely cause where they are something else.

No reader guesses on: a file in another encoding or with another separator is refused in one line that says what it
looks like and what to do. `tables` opens the files; nothing here needs pyarrow.
"""

import gzip
import io
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

from steelyard_common.errors import one_line

Format = Literal["parquet", "arrow", "jsonl", "csv"]

ROW_BYTES = 60 << 20
"""Longest row of CSV and line of JSON, and largest array of JSON, which is read at once: a page of Parquet holds it."""
COLUMNS = 10_000
"""Most columns of a table."""
CELLS, CELLS_RATIO = 20_000_000, 16
"""Rows times columns of JSON lines, which need not have all keys: so many, or so many for each byte of the file."""
PIECE_CELLS = 1_000_000
"""Most rows times columns that are read at once."""
UNPACKED_BYTES, UNPACKED_RATIO = 128 << 20, 100
"""A compressed file unpacks to no more than one of these: bytes, times its size."""
_VALUES, _PACKED_ROW, _PACKED_RATIO = 1_000_000, 8 << 20, 16
TITLES: Mapping[Format, str] = {
    "parquet": "Parquet",
    "arrow": "Arrow",
    "jsonl": "JSON lines",
    "csv": "CSV",
}
_SUFFIXES: Mapping[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
ENDINGS = f"{', '.join(_SUFFIXES)}, and .csv.gz and the like"
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of reading a compressed file."""
BOM = b"\xef\xbb\xbf"
"""Mark that some programs write at the beginning of UTF-8."""
_HEAD = 64 << 10

_SAVE = "save the table as CSV in UTF-8"
_UNPACK = "unpack it first"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xd0\xcf\x11\xe0", f"it is an old Office document (.xls, .doc): {_SAVE}"),
    (b"%PDF-", f"it is a PDF document: {_SAVE}"),
    (b"\x1f\x8b", "it is compressed by gzip: end its name in .gz, or unpack it"),
    (b"\x28\xb5\x2f\xfd", f"it is compressed by Zstandard: {_UNPACK}"),
    (b"BZh", f"it is compressed by bzip2: {_UNPACK}"),
    (b"\xfd7zXZ", f"it is compressed by xz: {_UNPACK}"),
    (b"7z\xbc\xaf", f"it is a 7z archive: {_UNPACK}"),
    (b"Rar!", f"it is a RAR archive: {_UNPACK}"),
    (b"PAR1", "it is Parquet: end its name in .parquet"),
    (b"ARROW1", "it is Arrow: end its name in .arrow"),
    (b"FEA1", "it is Feather of version 1, which is no longer read: write it as Parquet"),
    (b"SQLite format 3", "it is a database of SQLite: export the table as CSV"),
    (b"\x89HDF", "it is HDF5: write the table as Parquet"),
    (b"\x93NUMPY", "it is an array of NumPy: write the table as Parquet"),
    (b"ORC", "it is ORC: write the table as Parquet"),
    (b"Obj\x01", "it is Avro: write the table as Parquet"),
    (b"\x80\x04", "it is a pickle of Python: write the table as Parquet"),
    (b"\x80\x05", "it is a pickle of Python: write the table as Parquet"),
    (b"\x89PNG", "it is a picture (PNG)"),
    (b"\xff\xd8\xff", "it is a picture (JPEG)"),
    (b"version https://git-lfs", "it is a pointer of Git LFS and not the file: fetch the file with git lfs pull"),
)  # fmt: skip
_OWN: Mapping[Format, tuple[bytes, ...]] = {"parquet": (b"PAR1",), "arrow": (b"ARROW1", b"\xff\xff\xff\xff")}
_PAGE = re.compile(rb"\s*<(!doctype html|html|head|body)", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml")
_JSON = re.compile(rb'\s*(\{\s*"|\[\s*\{)')
_OLD_ENCODINGS = (
    ("cp1251", "[а-яё]", "Windows-1251"),
    ("koi8_r", "[а-яё]", "KOI8-R"),
    ("shift_jis", "[ぁ-ヿ一-鿿]", "Shift JIS"),
    ("euc_jp", "[ぁ-ヿ]", "EUC-JP"),
    ("euc_kr", "[가-힣]", "EUC-KR"),
    ("gb18030", "[一-鿿]", "GB 18030"),
    ("big5", "[一-鿿]", "Big5"),
)
"""Encodings with the letters that most of a text in them is made of."""


class BadTable(Exception):
    """A file that is not a table of its form, in one line: where, why, and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def find_form(path: str) -> Format | None:
    """Return the form of a file by the end of its name, or None for a file that is not a table."""
    name = path.lower()
    form = _SUFFIXES.get(Path(name.removesuffix(".gz")).suffix)
    return None if name.endswith(".gz") and form in ("parquet", "arrow") else form


def open_bytes(path: Path) -> BinaryIO:
    """Open a file; one that gzip compressed is read unpacked. Its reads raise BadTable."""
    if not _is_packed(path):
        return path.open("rb")
    return io.BufferedReader(_Unpacking(path), _HEAD)


class _Unpacking(io.RawIOBase):
    """A compressed file, where a kilobyte can stand for a megabyte."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.GzipFile(path)
        self._most = self._left = max(UNPACKED_BYTES, UNPACKED_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._file.readinto(buffer)
        self._left -= size
        if self._left < 0:
            raise BadTable(f"unpacks to more than {self._most} bytes, which are allowed")
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def longest_row(path: Path) -> int:
    """Return the most bytes of one row, which are fewer where they may stand in the file by much fewer."""
    if not _is_packed(path):
        return ROW_BYTES
    return min(ROW_BYTES, max(_PACKED_ROW, _PACKED_RATIO * path.stat().st_size))


def most_values(path: Path) -> int:
    """Return the most values of one row: as many as fit into a file that is not compressed."""
    return max(_VALUES, path.stat().st_size)


def check_columns(count: int) -> None:
    """Raise BadTable for too many columns."""
    if count > COLUMNS:
        raise BadTable(f"has {count} columns; {COLUMNS} are allowed")


def check_content(path: Path, form: Format) -> None:
    """Raise BadTable for a file whose first bytes are those of something else."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD).removeprefix(BOM)
    except gzip.BadGzipFile as error:
        raise BadTable("is not compressed by gzip: take .gz from its name") from error
    except DAMAGED as error:
        raise damage_fault(error) from error
    except OSError as error:
        raise BadTable(f"cannot be read: {error.strerror or error}") from error
    if not head and form != "jsonl":  # no line is no row
        raise BadTable(f"is not {TITLES[form]}: it is empty")
    own = _OWN.get(form)
    if own is not None and head.startswith(own):
        return
    cause = _cause(path, head, form)
    if cause is None and own is not None:
        cause = "it looks like text" if _is_text(head) else "it does not begin as such files do"
    if cause is not None:
        raise BadTable(f"is not {TITLES[form]}: {cause}")


def damage_fault(error: Exception) -> BadTable:
    """Return the refusal of a compressed file that cannot be unpacked to its end."""
    if isinstance(error, EOFError):
        return BadTable("is cut short: its compressed content ends early")
    return BadTable(f"is damaged: its compressed content cannot be unpacked ({error})")


def bad_encoding(content: bytes, where: str = "") -> BadTable:
    """Return the refusal of text that is not UTF-8, with the encoding that it seems to have."""
    looks = _guess_encoding(content)
    return BadTable(f"{where}its text is not UTF-8; it looks like {looks}: save it in UTF-8")


def _cause(path: Path, head: bytes, form: Format) -> str | None:
    """Return what a file is by its first bytes, and what to do; None where they may be those of its form."""
    if head.startswith(b"PK\x03\x04"):
        return _archive(path, head)
    for magic, words in _MAGIC:
        # A few letters may also be the name of a column.
        if head.startswith(magic) and (len(magic) > 4 or not _is_text(head)):
            return words
    if _PAGE.match(head):
        return "it is an HTML page, perhaps of a login or an error: download the file itself"
    if _XML.match(head):
        return f"it is XML: {_SAVE}"
    if head[257:262] == b"ustar":
        return f"it is a tar archive: {_UNPACK}"
    if form == "csv" and _JSON.match(head):
        return "it is JSON: end its name in .jsonl, with one object to a line"
    if wide := _wide(head):
        return f"its text is {wide}: save it in UTF-8"
    return "it is binary, not text" if b"\0" in head and form in ("csv", "jsonl") else None


def _archive(path: Path, head: bytes) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _HEAD))
        parts = head + file.read(_HEAD)
    if b"xl/" in parts:
        return f"it is an Excel workbook (.xlsx): {_SAVE}"
    if b"application/vnd.oasis.opendocument" in parts:
        return f"it is an OpenDocument file: {_SAVE}"
    return f"it is a zip archive: {_UNPACK}"


def _wide(head: bytes) -> str | None:
    """Return the name of an encoding that takes two or four bytes for a letter."""
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    even, odd = head[::2], head[1::2]
    most = len(odd) // 2
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or (
        len(head) > 3 and (odd.count(0) > most) != (even.count(0) > most)
    ):
        return "UTF-16"
    return None


def _is_text(head: bytes) -> bool:
    return not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", head)


def _guess_encoding(content: bytes) -> str:
    if re.search(rb"[\x00-\x08\x0e-\x1a]", content):
        return "binary content"
    high = re.findall(rb"[\x80-\xff]+", content)
    # Letters with accents stand alone among others; those of other scripts follow each other.
    if sum(map(len, high)) >= 3 * len(high):
        for codec, letters, title in _OLD_ENCODINGS:
            text = re.sub(r"[\x00-\x7f]", "", content.decode(codec, errors="replace"))
            if len(re.findall(letters, text)) * 4 >= len(text) * 3:
                return title
    return "Latin-1 (Windows-1252)"
