"""The trial of the engines: each is named before its trial, and one that is down is reported."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.secrets import Secrets, make_keys, read_keys
from steelyard.local.config import Check, check_engines, check_surroundings, missing_settings
from steelyard.local.platform import reachable
from steelyard.local.state import StateDir
from steelyard.settings import load


async def test_an_object_store_that_is_away_is_named_first_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has the patience of the command: without any, one request is sent."""
    tries = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as away:
        credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "x"}
        port = away.sockets[0].getsockname()[1]
        address = {"AWS_ENDPOINT": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
        for name, value in (credentials | address).items():
            monkeypatch.setenv(name, value)
        settings = load(None, tmp_path).model_copy(update={"storage": "s3://nobody"})
        seen: list[str] = []
        faults = {}
        async for check in check_engines(
            settings, lambda engine, address: seen.append(f"{engine} {address}"), timedelta(0)
        ):
            if check.engine == "storage":
                assert (seen[-1], tries) == ("storage s3://nobody", 1)
            faults[check.engine] = check.fault
        assert faults["storage"]


async def test_the_mirror_is_tried_where_there_is_one(tmp_path: Path) -> None:
    settings = load(None, tmp_path)
    assert "mirror" not in [check.engine async for check in check_engines(settings)]
    (tmp_path / "mirror").mkdir()
    mirrored = settings.model_copy(update={"mirror": (tmp_path / "mirror").as_uri()})
    seen = {check.engine: check async for check in check_engines(mirrored)}["mirror"]
    assert (seen.fault, seen.facts[0]) == ("", "writes, copies, lists and removes")


NOW = datetime(2030, 1, 1, tzinfo=UTC)


class KeyFile:
    """The file of keys of a folder's settings."""

    def __init__(self, folder: Path) -> None:
        (folder / "pki").mkdir()
        self.settings = load(None, folder)
        self.path = Path(self.settings.secret_keys)

    def make(self) -> str:
        """Put new keys in place of what there is, and return what there was."""
        before = self.path.read_text() if self.path.exists() else ""
        self.write("")
        make_keys(self.path)
        return before

    def write(self, text: str) -> None:
        """Replace the file; no text removes it."""
        self.path.unlink(missing_ok=True)
        if text:
            self.path.write_text(text)

    async def store(self, name: str) -> None:
        """Store a secret, encrypted with the first key."""
        opened = await open_accounts_database(self.settings.accounts)
        await Secrets(opened.secrets, read_keys(self.path)).set("acme", name, f"value of {name}", NOW)
        await opened.close()

    async def tried(self) -> Check:
        """Return what the trial says of the keys."""
        (check,) = [check async for check in check_engines(self.settings) if check.engine == "secrets"]
        assert check.address == self.settings.secret_keys
        assert "value of" not in str(check)
        return check


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path)


async def test_before_the_first_start_there_are_no_keys_and_no_secrets(keys: KeyFile) -> None:
    assert (await keys.tried()).facts == ("is not there, and there are no secrets yet",)
    assert (await keys.tried()).facts == ("is not there, and there are no secrets yet",), "a look makes none"


async def test_keys_that_open_every_secret_are_good(keys: KeyFile) -> None:
    keys.make()
    assert (await keys.tried()).facts == ("1 key", "there are no secrets yet")
    await keys.store("token-0")
    assert (await keys.tried()).facts == ("1 key", "opens the one secret")
    for number in range(1, 3):
        await keys.store(f"token-{number}")
    assert (await keys.tried()).facts == ("1 key", "opens all 3 secrets")


async def test_keys_that_are_missing_though_there_are_secrets_are_a_fault(keys: KeyFile) -> None:
    keys.make()
    await keys.store("token")
    keys.write("")
    fault = (await keys.tried()).fault
    assert "there is no such file, and without it 1 stored secret cannot be read" in fault


async def test_a_malformed_line_is_named_and_not_shown(keys: KeyFile) -> None:
    keys.write("# a comment\nAAAA-no-key\n")
    fault = (await keys.tried()).fault
    assert "line 2 should be 32 bytes in base64" in fault
    assert "AAAA" not in fault


async def test_keys_that_cannot_open_a_newer_secret_are_a_fault(keys: KeyFile) -> None:
    keys.make()
    await keys.store("old")
    old = keys.make()
    await keys.store("new")
    keys.write(old)  # put back from an older copy
    fault = (await keys.tried()).fault
    assert "1 of 2 secrets cannot be read: secret new of account acme: is encrypted with the key" in fault
    assert "which the file of keys lacks" in fault


# ---- what surrounds the engines


@pytest.mark.parametrize(
    ("content", "one_machine", "missing"),
    [
        ("", True, []),
        ("", False, ["api.public_url: is not set"]),
        ("[api]\npublic_url = 'https://x'", False, []),
        (
            "[api]\nadministrator_token = 'short'\nsigned_urls = 'store'",
            False,
            ["api.administrator_token: should have", "api.public_url: is not set", "api.signed_urls: only"],
        ),
        (
            "[api]\nspool = '/nowhere'",
            True,
            ["api.spool: /nowhere: No such file or directory; it should be a folder"],
        ),
    ],
    ids=["one machine", "a cluster", "complete", "all at once", "a folder that is not there"],
)
def test_every_setting_that_is_missing_is_named(
    tmp_path: Path, content: str, one_machine: bool, missing: list[str]
) -> None:
    path = tmp_path / "steelyard.toml"
    path.write_text(content)
    faults = missing_settings(load(path, tmp_path), one_machine=one_machine)
    assert [fault.startswith(words) for fault, words in zip(faults, missing, strict=True)] == [True] * len(
        missing
    )
    assert "short" not in "".join(faults)


@pytest.mark.parametrize(
    ("url", "reached"),
    [
        ("http://0.0.0.0:8000/", "http://127.0.0.1:8000/"),
        ("http://[::]:8000/", "http://[::1]:8000/"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000/"),
    ],
)
def test_the_address_of_a_server_on_all_addresses_is_one_that_answers(url: str, reached: str) -> None:
    assert reachable(url) == reached


def write_kubeconfig(path: Path, url: str) -> None:
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: c, user: {{token: t}}}}]
contexts: [{{name: c, context: {{cluster: c, user: c}}}}]
"""
    )


@dataclass
class Api:
    """An API server that answers the questions of the check."""

    groups: tuple[str, ...] = ("dyff.io",)
    lease_status: int = 404

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/apis":
            groups = [{"name": name, "versions": [{"version": "v1"}]} for name in self.groups]
            return web.json_response({"groups": groups})
        return web.json_response({"message": "leases"}, status=self.lease_status)


async def kubernetes(folder: Path, api: Api | None, own: bool = False) -> Check:
    """Return the result of the trial with a kubeconfig, behind which `api` answers, if there is one."""
    state = StateDir(folder / "state")
    state.path.mkdir(exist_ok=True)
    path = state.kubeconfig if own else folder / "kubeconfig"
    app = web.Application()
    if api is not None:
        app.router.add_get("/{path:.*}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    write_kubeconfig(path, f"http://127.0.0.1:{runner.addresses[0][1]}")
    if api is None:
        await runner.cleanup()
    settings = load(None, state.path).model_copy(
        update={"kubernetes": str(path), "lease_namespace": "system"}
    )
    (check,) = [check async for check in check_surroundings(settings, state) if check.engine == "kubernetes"]
    await runner.cleanup()
    return check


async def test_kubernetes_is_tried_from_where_the_command_runs(tmp_path: Path) -> None:
    seen = await kubernetes(tmp_path, Api())
    assert (seen.fault, seen.facts[1]) == ("", "reads leases in system")
    seen = await kubernetes(tmp_path, Api(lease_status=403))
    assert seen.facts[1].startswith("this account may not read leases in system")
    seen = await kubernetes(tmp_path, Api(groups=("apps",)))
    assert seen.fault == "the definitions of dyff.io are not installed"
    seen = await kubernetes(tmp_path, Api(lease_status=401))
    assert "401" in seen.fault
    assert (await kubernetes(tmp_path, None)).fault
    seen = await kubernetes(tmp_path, None, own=True)
    assert (seen.fault, seen.facts) == ("", ("does not run; `steelyard up` starts it",))


async def test_a_pod_without_an_account_is_no_fault_and_a_missing_kubeconfig_is(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    for environment, fact in (({}, "is not there yet"), ({"KUBERNETES_SERVICE_HOST": "x"}, "no account")):
        checks = check_surroundings(load(None, tmp_path), state, environment=environment)
        assert fact in (await anext(checks)).facts[0]
    missing = load(None, tmp_path).model_copy(update={"kubernetes": "/nowhere"})
    assert "there is no such file" in (await anext(check_surroundings(missing, state))).fault
