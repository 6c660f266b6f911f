"""Files of lines, read from their end: a log may have gigabytes, and who asks for its last lines waits for few.

The logs of Pods, in the embedded Kubernetes and in the platform's API, are read by it.
"""

import os
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK = 1 << 16


def lines_backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from its end, each with its place."""
    end, rest = file.seek(0, os.SEEK_END), b""
    while end:
        size = min(_BLOCK, end)
        end = file.seek(end - size)
        block = file.read(size) + rest
        lines = block.split(b"\n")
        lines = [*(line + b"\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else ())]
        offset = end + len(block)
        for line in reversed(lines[1:]):
            offset -= len(line)
            yield offset, line
        rest = lines[0]  # it may begin in the block before
    if rest:
        yield 0, rest
