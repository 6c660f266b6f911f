"""Recorded answers of a real server, and the numbers of differences that are known and to be mended.

Both are kept per file of cases: recordings compressed, known differences as lines of a name and a number. The numbers
only shrink.
"""

import lzma
from pathlib import Path

import orjson

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case

FOLDER = Path(__file__).parent


def recordings(module: str) -> Json:
    """Recorded cases of one file by name: `digest` and `answers`."""
    path = FOLDER / "recorded" / f"{module}.json.xz"
    if not path.exists():
        return {}
    content: Json = orjson.loads(lzma.decompress(path.read_bytes()))
    return content


def write_recordings(module: str, content: Json) -> None:
    path = FOLDER / "recorded" / f"{module}.json.xz"
    path.parent.mkdir(exist_ok=True)
    raw = orjson.dumps(dict(sorted(content.items())), option=orjson.OPT_SORT_KEYS)
    path.write_bytes(lzma.compress(raw, preset=9))


def recorded(module: str, case: Case) -> list[Json] | None:
    """The real server's answers to this very form of the case."""
    entry = recordings(module).get(case.name)
    return entry["answers"] if entry and entry["digest"] == case.digest() else None


def known(module: str) -> dict[str, int]:
    """Numbers of known differences by case; a case without a line has zero."""
    path = FOLDER / "known" / f"{module}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: int(number) for number, _, name in (line.partition(" ") for line in lines)}


def write_known(module: str, content: dict[str, int]) -> None:
    path = FOLDER / "known" / f"{module}.txt"
    lines = [f"{number} {name}\n" for name, number in sorted(content.items()) if number]
    if lines:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(lines))
    else:
        path.unlink(missing_ok=True)
