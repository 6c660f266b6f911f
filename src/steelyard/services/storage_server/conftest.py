"""Fixtures of the server of the storage folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.services.storage_server.simulation.client import Serving, serving_folder


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A server of an empty folder, which `open_store` reaches as s3://steelyard."""
    with serving_folder(tmp_path / "storage") as serving:
        for name, value in serving.environment().items():
            monkeypatch.setenv(name, value)
        yield serving
