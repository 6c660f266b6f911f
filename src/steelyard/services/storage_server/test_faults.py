"""The codes of errors: each one that is listed is raised."""

from pathlib import Path

from steelyard.services.storage_server.faults import STATUSES


def test_every_code_is_raised_somewhere() -> None:
    sources = [path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
    text = "".join(path.read_text() for path in sources)
    assert [code for code in STATUSES if text.count(f'"{code}"') < 2] == []
