"""A wall clock that steps for every process of a machine under test, while the test itself keeps the true one.

A small library that is preloaded (`stepped_clock.c`) adds an offset to what libc says; programs and their Pods inherit
it. Where there is no C compiler there is no such clock. Times that the kernel writes into files stay true, so an offset
stays below a day: files would look older than uploads may become.
"""

import ctypes
import mmap
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")
MOST_SECONDS = 23.5 * 3600


@dataclass(frozen=True)
class SteppedClock:
    """The clock of whatever is started while the variables of `stepped_clock` are set."""

    file: Path

    @property
    def offset(self) -> float:
        """Seconds that it is ahead of the true clock."""
        return int.from_bytes(self.file.read_bytes(), "little", signed=True) / 1e9

    def step(self, seconds: float) -> None:
        """Move it, at once for all processes; a step that would lead too far away goes the other way."""
        offset = self.offset + seconds
        if abs(offset) > MOST_SECONDS:
            offset = self.offset - seconds
        if abs(offset) > MOST_SECONDS:
            raise ValueError(f"seconds: {seconds} leads further away than {MOST_SECONDS} either way")
        with self.file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as content:
            # In place and by one instruction: whoever reads sees the old time or the new one.
            number = ctypes.c_int64.from_buffer(content)
            number.value = round(offset * 1e9)
            del number


def stepped_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SteppedClock | None:
    """A clock for all that the test starts from now on; None where no C compiler is installed.

    Its files are put into `folder`, which every process and Pod of the machine must see.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library, file = folder / "stepped_clock.so", folder / "stepped_clock"
    subprocess.run(
        [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True
    )
    file.write_bytes(bytes(8))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("STEPPED_CLOCK", str(file))
    return SteppedClock(file)
