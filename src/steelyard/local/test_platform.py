"""Tests of what the platform's process takes from its folder, and what from the cluster that it works on."""

import asyncio
from pathlib import Path

import pytest

from steelyard.local.platform import discovery_environment, run_platform
from steelyard.local.state import StateDir
from steelyard.settings import load
from steelyard_common.discovery import DnsDiscovery, HostsDiscovery, discovery
from steelyard_common.errors import UsageError


@pytest.mark.parametrize(
    ("kubernetes", "environment", "expected"),
    [
        pytest.param("state/kubeconfig", {}, "state/hosts", id="the folder's own Kubernetes has no DNS"),
        pytest.param("elsewhere", {}, None, id="another cluster has one"),
        pytest.param("elsewhere", {"STEELYARD_HOSTS": "hosts"}, "hosts", id="a file that is named counts"),
    ],
)
def test_replicas_are_found_by_the_names_of_their_cluster(
    kubernetes: str, environment: dict[str, str], expected: str | None, tmp_path: Path
) -> None:
    state = StateDir(tmp_path / "state")
    settings = load(None, state.path).model_copy(update={"kubernetes": str(tmp_path / kubernetes)})
    variables = {name: str(tmp_path / path) for name, path in environment.items()}
    discovered = discovery("dns:a.b.svc:8000", discovery_environment(state, settings, variables))
    if expected is None:
        assert discovered == DnsDiscovery("a.b.svc", 8000)
    else:
        assert discovered == HostsDiscovery(tmp_path / expected, "a.b.svc", 8000)


def test_an_api_that_has_no_place_for_uploads_does_not_start(tmp_path: Path) -> None:
    settings = load(None, tmp_path)
    settings = settings.model_copy(update={"api": settings.api.model_copy(update={"spool": "/nowhere"})})
    start = run_platform(
        StateDir(tmp_path), settings, ["api"], port=0, stop=asyncio.Event(), ready=lambda: None
    )
    with pytest.raises(UsageError, match=r"^settings: api\.spool: /nowhere: No such file or directory; "):
        asyncio.run(start)
    assert not list(tmp_path.iterdir())
