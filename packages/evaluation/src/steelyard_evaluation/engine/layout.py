"""Layout of an evaluation's output (RESOURCES.md, "Output of an evaluation").

The root holds verified `part-<n>.parquet` only; all else is under `.steelyard/`.
"""

import re
from dataclasses import dataclass

PARTS = ".steelyard/parts/"
ERRORS = ".steelyard/errors/"
JOURNAL = ".steelyard/journal/"
EPOCHS = ".steelyard/epoch/"
CHECKPOINTS = ".steelyard/checkpoint/"
RUN = ".steelyard/run.json"
SERVERS = ".steelyard/servers/"
"""Records of the servers that were asked, each in a file that is named after its content."""
PROGRESS = ".steelyard/progress.json"
MANIFEST = ".steelyard/manifest.json"

ROWS_SUFFIX = ".rows"
_PIECE = re.compile(r"(?P<epoch>.+)-(?P<seq>\d{6,})-(?P<number>\d{4,})\.json")
_PART = re.compile(r"part-(?P<shard>\d+)-(?P<epoch>.+)-(?P<seq>\d{6,})\.parquet")


@dataclass(frozen=True, order=True)
class PartName:
    """The name of one part: parts of one epoch are ordered by shard and sequence number."""

    epoch: str
    shard: int
    seq: int

    @property
    def name(self) -> str:
        return f"part-{self.shard:04d}-{self.epoch}-{self.seq:06d}.parquet"

    @property
    def part(self) -> str:
        return PARTS + self.name

    @property
    def rows(self) -> str:
        return self.part + ROWS_SUFFIX

    @property
    def errors(self) -> str:
        return ERRORS + "errors" + self.name.removeprefix("part")

    @classmethod
    def parse(cls, key: str) -> "PartName | None":
        """The part that `key` names; None when it names something else (a row set, a stray file)."""
        match = _PART.fullmatch(key.removeprefix(PARTS))
        return None if match is None else cls(match["epoch"], int(match["shard"]), int(match["seq"]))


@dataclass(frozen=True, order=True)
class PieceName:
    """The name of a piece of the journal: rows that go into the part `seq` of an epoch."""

    epoch: str
    seq: int
    number: int

    @property
    def key(self) -> str:
        return f"{JOURNAL}{self.epoch}-{self.seq:06d}-{self.number:04d}.json"

    @property
    def part(self) -> str:
        """Name of the part that its rows go into."""
        return PartName(self.epoch, 0, self.seq).name

    @classmethod
    def parse(cls, key: str) -> "PieceName | None":
        match = _PIECE.fullmatch(key.removeprefix(JOURNAL))
        return None if match is None else cls(match["epoch"], int(match["seq"]), int(match["number"]))


def checkpoint(epoch: str, number: int) -> str:
    return f"{CHECKPOINTS}{epoch}-{number:06d}.json"


def part_file_name(number: int) -> str:
    return f"part-{number:05d}.parquet"
