"""`steelyard config check` names the rights that a user lacks on brokers with access control."""

import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlencode

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from steelyard.broker.log import LogError
from steelyard.broker.open import open_log, prepare_log
from tests.engines.services.kafka import ADMINISTRATOR, PASSWORD, USER, Cluster, kafka, refusal, until

PREFIX = "platform."
PARTITIONS = 1
TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
GRANTED = (
    (TOPIC, AclOperation.DESCRIBE_CONFIGS),
    (TOPIC, READ),
    (TOPIC, WRITE),
    (TOPIC, DELETE),
    (GROUP, READ),
    (TRANSACTION, WRITE),
)
"""All rights of the documentation's list, on names that begin with the prefix."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka(1, access_control=True) as cluster:
        yield cluster


def url(cluster: Cluster, user: str, password: str) -> str:
    options = {name: ADMINISTRATOR[name] for name in ("security.protocol", "sasl.mechanism")}
    return f"kafka://{user}:{password}@{cluster.bootstrap}/{PREFIX.strip('.')}?{urlencode(options)}"


async def facts(cluster: Cluster) -> list[str]:
    log = await open_log(url(cluster, USER, PASSWORD), PARTITIONS)
    try:
        return list(await log.facts())
    finally:
        await log.close()


@pytest.fixture
async def admin(cluster: Cluster) -> AdminClient:
    """Client that grants and revokes; the user has all rights, on topics that are there."""
    login = ADMINISTRATOR["sasl.username"], ADMINISTRATOR["sasl.password"]
    await prepare_log(url(cluster, *login), PARTITIONS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **ADMINISTRATOR})
    for future in admin.create_acls([binding(*granted) for granted in GRANTED]).values():
        future.result()
    return admin


def binding(kind: ResourceType, operation: AclOperation) -> AclBinding:
    pattern, allowed = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
    return AclBinding(kind, PREFIX, pattern, f"User:{USER}", "*", operation, allowed)


async def test_a_user_with_all_rights_is_taken(cluster: Cluster, admin: AdminClient) -> None:
    await until(partial(refusal, partial(facts, cluster)), "".__eq__)
    assert "all rights" in await facts(cluster)


async def test_a_wrong_password_is_named(cluster: Cluster) -> None:
    with pytest.raises(LogError, match=r"no broker answers: .*[Aa]uthentication failed") as refused:
        await open_log(url(cluster, USER, "wrong-one"), PARTITIONS)
    assert "wrong-one" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "operation", "named"),
    [
        (TOPIC, WRITE, "WRITE on the topic platform.workflows.state"),
        (TOPIC, DELETE, "DELETE on the topic platform.workflows.events"),
        (GROUP, READ, "READ on groups that begin with platform."),
        (TRANSACTION, WRITE, "WRITE on transactional ids that begin with platform."),
    ],
)
async def test_a_right_that_is_missing_is_named(
    cluster: Cluster, admin: AdminClient, kind: ResourceType, operation: AclOperation, named: str
) -> None:
    pattern, allowed = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
    revoked = AclBindingFilter(kind, PREFIX, pattern, f"User:{USER}", "*", operation, allowed)
    (deleted,) = admin.delete_acls([revoked]).values()
    assert len(deleted.result()) == 1
    lacking = re.compile(rf"the user lacks the rights .*{re.escape(named)}")
    await until(partial(refusal, partial(facts, cluster)), lacking.search)
