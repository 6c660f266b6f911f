"""Tests of lines that are read from the end of a file, and of logs that are far larger than the requested part."""

import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api.workflows.pod_logs import MOST_LINES, _cri_entries
from steelyard_common import line_files
from steelyard_common.line_files import lines_backwards
from steelyard_local_kubernetes.apiserver.logs import LogOptions, _read_blocks

LINE = b"2026-01-31T12:00:00.000000000Z stdout F %07d\n"


@given(text=st.binary(max_size=60).map(lambda text: text.replace(b"a", b"\n")), block=st.integers(1, 9))
def test_lines_come_from_the_end_with_their_places(text: bytes, block: int) -> None:
    expected, place = [], 0
    for line in text.split(b"\n"):
        whole = line + b"\n" if place + len(line) < len(text) else line
        expected += [(place, whole)] if whole else []
        place += len(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_files, "_BLOCK", block)
        assert list(lines_backwards(io.BytesIO(text))) == expected[::-1]


async def _text_of(path: Path, options: LogOptions) -> bytes:
    pieces = [piece async for piece in _read_blocks(path, options)]
    return b"".join(pieces)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "0.log"
    path.write_bytes(b"".join(LINE % number for number in range(300_000)))
    return path


async def test_the_last_line_of_a_long_log_takes_little_memory(log: Path) -> None:
    tracemalloc.start()
    try:
        assert await _text_of(log, LogOptions(False, 1, 0, "")) == b"0299999\n"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


async def test_a_long_log_is_sent_in_pieces(log: Path) -> None:
    whole = await _text_of(log, LogOptions(False, None, 0, ""))
    longest = max([len(piece) async for piece in _read_blocks(log, LogOptions(False, None, 0, ""))])
    assert longest < 1 << 16
    assert await _text_of(log, LogOptions(False, 300_001, 0, "")) == whole
    assert await _text_of(log, LogOptions(False, 0, 0, "")) == b""


def test_the_platform_reads_the_last_lines_alone(log: Path) -> None:
    entries = _cri_entries(log, {}, None)
    assert (len(entries), entries[0].message, entries[-1].message) == (MOST_LINES, "0200000", "0299999")
