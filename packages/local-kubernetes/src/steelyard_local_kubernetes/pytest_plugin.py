"""A fixture of pytest: `pytest_plugins = ["steelyard_local_kubernetes.pytest_plugin"]` in a conftest.py brings it."""

from collections.abc import Iterator

import pytest

from steelyard_local_kubernetes.background import RunningKubernetes, running_kubernetes


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKubernetes]:
    """A Kubernetes for all tests of the session: `kubernetes.kubeconfig` is the path that clients need.

    Tests share it. Each takes a namespace of its own, as on any cluster.
    """
    with running_kubernetes(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running
