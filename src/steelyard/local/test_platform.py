"""Tests of what the platform's process takes from its folder, and what from the cluster that it works on."""

from pathlib import Path
from typing import cast

import pytest

from steelyard.accounts.database import Accounts, AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database
from steelyard.discovery import DnsDiscovery, HostsDiscovery, discovery
from steelyard.local.platform import administrator_token, discovery_environment
from steelyard.local.state import StateDir
from steelyard.settings import load


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


class Unanswered:
    """Accounts whose database has not answered lately the first times that it is asked."""

    def __init__(self, accounts: Accounts, times: int) -> None:
        self._accounts, self._left = accounts, times

    def __getattr__(self, name: str) -> object:
        return getattr(self._accounts, name)

    def version(self) -> int:
        self._left -= 1
        if self._left >= 0:
            raise AccountsDatabaseError("no answer for 7 s")
        return self._accounts.version()


async def test_a_start_waits_until_the_accounts_database_has_answered_again(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.api_token.parent.mkdir(parents=True)
    database = await open_accounts_database("memory:")
    token = await administrator_token(state, database.accounts)
    unanswered = cast(Accounts, Unanswered(database.accounts, 3))
    assert await administrator_token(state, unanswered) == token
    await database.close()
