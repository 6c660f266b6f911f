"""The contract of every cluster, on a server through the REST client."""

import pytest

from steelyard_kube.client import RestCluster
from steelyard_kube.simulation import contract


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_the_contract_holds(case: contract.Case, cluster: RestCluster, namespace: str) -> None:
    await case(cluster, namespace)
