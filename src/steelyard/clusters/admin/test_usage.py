"""Usage of cluster queues, as people read it."""

from decimal import Decimal

import pytest

from steelyard.clusters.admin.usage import Usage


@pytest.mark.parametrize(
    ("resource", "used", "quota", "shown"),
    [
        ("cpu", "0.5", "4", "0.5 of 4"),
        ("memory", str(2 * 2**30), str(16 * 2**30), "2Gi of 16Gi"),
        ("memory", str(3 * 2**29), str(2**40), "1.5Gi of 1Ti"),
        ("memory", "0", "1000", "0 of 1000"),
        ("nvidia.com/gpu", "1024", "2048", "1024 of 2048"),
        ("ephemeral-storage", str(2**20), "1500000000", "1Mi of 1.4Gi"),
    ],
)
def test_bytes_are_shown_with_a_unit(resource: str, used: str, quota: str, shown: str) -> None:
    usage = Usage("all", "machine", resource, Decimal(quota), Decimal(used), Decimal(0))
    assert f"({shown})" in str(usage)
