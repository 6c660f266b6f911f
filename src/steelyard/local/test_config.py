"""The trial of the engines: each is named before its trial, and one that is down is reported within seconds."""

import socket
import time
from datetime import timedelta
from pathlib import Path

import pytest

from steelyard.local.config import PATIENCE, check_engines
from steelyard.settings import load


async def test_an_object_store_that_is_away_is_named_first_and_given_up_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "x"}
        address = {"AWS_ENDPOINT": f"http://127.0.0.1:{taken.getsockname()[1]}", "AWS_ALLOW_HTTP": "true"}
        for name, value in (credentials | address).items():
            monkeypatch.setenv(name, value)
        settings = load(None, tmp_path).model_copy(update={"storage": "s3://nobody"})
        seen: list[str] = []
        began = {}

        def begin(engine: str, address: str) -> None:
            seen.append(f"{engine} {address}")
            began[engine] = time.monotonic()

        faults = {}
        async for check in check_engines(settings, begin, timedelta(seconds=0.2)):
            if check.engine == "storage":
                assert seen[-1] == "storage s3://nobody"
                assert time.monotonic() - began["storage"] < PATIENCE.total_seconds()
            faults[check.engine] = check.fault
        assert faults["storage"]
