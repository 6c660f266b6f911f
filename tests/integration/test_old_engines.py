"""An engine that is too old is refused in one line, by `steelyard config check` and at start."""

from pathlib import Path

import pytest

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database
from steelyard.broker.open import open_log, prepare_log
from steelyard.local.config import check_engines
from steelyard.local.engines import engines
from steelyard.settings import Settings, load
from steelyard_common.errors import SteelyardError
from tests.integration import old_engines

NEWER_MONGODB = 9
"""Version of the protocol of MongoDB 4.4."""


async def refusal(settings: Settings, engine: str) -> str:
    """Return why an engine cannot be used by `config check`, which is one line."""
    fault = {check.engine: check.fault async for check in check_engines(settings)}[engine]
    assert "\n" not in fault
    return fault


async def refusal_at_start(settings: Settings, folder: Path) -> str:
    """Return why the platform does not start, which is one line."""
    with pytest.raises(SteelyardError) as refused:
        async with engines(settings, "ask somebody", folder):
            pass
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_an_old_kafka_is_refused(tmp_path: Path) -> None:
    """A replaced member would write positions: the client leaves the check out in silence."""
    with old_engines.kafka(old_engines.KAFKA["2.4"]) as port:
        address = f"kafka://127.0.0.1:{port}/platform"
        settings = load(None, tmp_path).model_copy(update={"log": address})
        fault = await refusal(settings, "log")
        assert (
            fault
            == f"log {address}: Kafka is too old: 2.5 or newer is needed, for TxnOffsetCommit of version 3"
        )
        assert await refusal_at_start(settings, tmp_path) == fault
        with pytest.raises(SteelyardError, match="Kafka is too old"):
            await prepare_log(address)


async def test_the_oldest_kafka_that_does_is_not(tmp_path: Path) -> None:
    with (
        old_engines.kafka(old_engines.KAFKA["2.5"]) as port,
        pytest.raises(SteelyardError, match="has no topics of Steelyard yet"),
    ):
        await open_log(f"kafka://127.0.0.1:{port}")


async def test_an_old_mongodb_is_refused(tmp_path: Path) -> None:
    with old_engines.mongodb(NEWER_MONGODB - 1) as port:
        address = f"mongodb://127.0.0.1:{port}/steelyard?replicaSet=rs0"
        settings = load(None, tmp_path).model_copy(update={"view": address})
        fault = await refusal(settings, "view")
        assert fault.startswith(
            f"view {address}: Server at 127.0.0.1:{port} reports wire version 8, but this version of"
        )
        assert fault.endswith("requires at least 9 (MongoDB 4.4).")
        assert await refusal_at_start(settings, tmp_path) == fault


async def test_the_oldest_mongodb_that_does_is_not(tmp_path: Path) -> None:
    """The double knows no entities: later refusals are not the fault of its version."""
    with old_engines.mongodb(NEWER_MONGODB) as port:
        address = f"mongodb://127.0.0.1:{port}/steelyard?replicaSet=rs0"
        assert "wire version" not in await refusal(
            load(None, tmp_path).model_copy(update={"view": address}), "view"
        )


@pytest.fixture
def s3_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "x",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return load(None, tmp_path).model_copy(update={"storage": "s3://steelyard/platform"})


async def test_a_store_that_ignores_conditions_is_refused(
    s3_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with old_engines.s3(conditional=False) as port:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
        fault = await refusal(s3_settings, "storage")
        assert fault == (
            "s3://steelyard/platform: a create-only write replaced an object; this store cannot be used"
        )
        assert await refusal_at_start(s3_settings, tmp_path) == fault
        backup = s3_settings.model_copy(
            update={"storage": load(None, tmp_path).storage, "backup": s3_settings.storage}
        )
        assert await refusal_at_start(backup, tmp_path) == fault


async def test_a_store_that_heeds_them_is_not(
    s3_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with old_engines.s3(conditional=True) as port:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
        async with engines(s3_settings, "", tmp_path):
            pass


async def test_an_old_postgresql_is_refused(tmp_path: Path) -> None:
    with old_engines.postgresql("12.22") as port:
        address = f"postgresql://somebody@127.0.0.1:{port}/steelyard"
        settings = load(None, tmp_path).model_copy(update={"accounts": address})
        fault = await refusal(settings, "accounts")
        assert fault == f"accounts {address}: PostgreSQL 12 is too old: 13 or newer is needed"
        assert await refusal_at_start(settings, tmp_path) == fault


async def test_the_oldest_postgresql_that_does_is_not() -> None:
    """The double has no tables: later refusals are not the fault of its version."""
    with old_engines.postgresql("13.0") as port, pytest.raises(AccountsDatabaseError) as refused:
        await open_accounts_database(f"postgresql://somebody@127.0.0.1:{port}/steelyard")
    assert "too old" not in str(refused.value)
