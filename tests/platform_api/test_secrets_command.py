"""`steelyard secret` and `client.secrets`, against the API itself."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from steelyard.cli import secrets as command
from steelyard.cli.main import app
from steelyard.client import AsyncClient, Invalid, NotFound
from steelyard_schema.secrets import VALUE_BYTES
from tests.platform_api.memory_platform import make_platform
from tests.platform_api.test_client import ENDPOINT, ThreadedClient
from tests.platform_api.test_served import ServedPlatform, served

VALUE = "hf_a-distinctive-value"


async def steelyard(to: ServedPlatform, *arguments: str, text: str = "") -> Result:
    words = ["secret", *arguments, "--account", "acme", "--endpoint", to.url, "--token", to.token]
    result = await asyncio.to_thread(CliRunner().invoke, app, words, text)
    assert VALUE not in result.output
    assert VALUE not in str(result.exception)
    return result


async def stored(to: ServedPlatform, name: str = "hub-token") -> str:
    """The value, as the orchestrator reads it."""
    from steelyard.accounts.secrets import Secrets

    engines = to.engines
    secret = await Secrets(engines.accounts_database.secrets, engines.secret_keys).value("acme", name)
    assert secret is not None
    return secret.get_secret_value()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
@pytest.mark.parametrize("source", ["pipe", "-", "file"])
async def test_a_value_comes_from_a_pipe_or_a_file_without_its_line_break(
    tmp_path: Path, source: str, ending: str
) -> None:
    (tmp_path / "token").write_bytes(f"{VALUE}{ending}".encode())
    options = {"pipe": (), "-": ("--file", "-"), "file": ("--file", str(tmp_path / "token"))}[source]
    async with served(tmp_path) as to:
        text = "" if source == "file" else f"{VALUE}{ending}"
        done = await steelyard(to, "set", "hub-token", *options, text=text)
        assert done.exit_code == 0, done.exception
        assert done.stdout.startswith("secret hub-token of acme: fingerprint ")
        assert await stored(to) == VALUE


async def test_a_value_is_asked_for_at_a_terminal_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool, bool]] = []

    def prompt(text: str, *, hide_input: bool, confirmation_prompt: bool) -> str:
        asked.append((text, hide_input, confirmation_prompt))
        return VALUE

    monkeypatch.setattr("steelyard.cli.secrets.sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("steelyard.cli.secrets.typer.prompt", prompt)
    assert command._value("hub-token", None) == VALUE
    assert asked == [("Value of hub-token", True, True)]


async def test_a_registrys_password_becomes_a_docker_configuration(tmp_path: Path) -> None:
    async with served(tmp_path) as to:
        options = ("--registry", "registry.example.com", "--username", "robot")
        assert (await steelyard(to, "set", "registry", *options, text=VALUE)).exit_code == 0
        content = json.loads(await stored(to, "registry"))
        auth = "cm9ib3Q6aGZfYS1kaXN0aW5jdGl2ZS12YWx1ZQ=="
        expected = {"username": "robot", "password": VALUE, "auth": auth}
        assert content == {"auths": {"registry.example.com": expected}}


async def test_secrets_are_listed_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as to:
        assert (await steelyard(to, "list")).stdout == "account acme has no secrets\n"
        await steelyard(to, "set", "hub-token", text=VALUE)
        head, row = (await steelyard(to, "list")).stdout.splitlines()
        assert head.split() == ["NAME", "FINGERPRINT", "CREATED", "UPDATED"]
        assert row.startswith("hub-token  ")
        (shown,) = json.loads((await steelyard(to, "list", "-o", "json")).stdout)
        assert shown.keys() == {"account", "name", "fingerprint", "created", "updated"}
        assert (await steelyard(to, "delete", "hub-token")).stdout == "secret hub-token of acme deleted\n"
        gone = await steelyard(to, "delete", "hub-token")
        assert (gone.exit_code, "has no secret hub-token" in str(gone.exception)) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "content", "fault"),
    [
        ((), b"", "the value is empty"),
        ((), b"\n", "the value is empty"),
        ((), VALUE.encode() + b"x" * VALUE_BYTES, "more than 32768 bytes"),
        ((), "ä".encode() * VALUE_BYTES, "more than 32768 bytes"),
        ((), b"\xff\xfe", "is not text in UTF-8"),
        (("--registry", "r"), VALUE.encode(), "one is of no use without the other"),
        (("--username", "u"), VALUE.encode(), "one is of no use without the other"),
        (("--file", "missing/token"), b"", "--file missing/token: No such file"),
    ],
)
def test_a_value_of_no_use_is_refused_before_anything_is_asked(
    tmp_path: Path, arguments: tuple[str, ...], content: bytes, fault: str
) -> None:
    words = ["secret", "set", "a", "--account", "acme", *arguments]
    # Nothing answers there.
    words += ["--endpoint", "http://127.0.0.1:9/v0", "--token", "t"]
    done = CliRunner().invoke(app, words, content)
    assert fault in str(done.exception)
    assert VALUE not in done.output + str(done.exception)


def test_a_value_is_no_argument() -> None:
    done = CliRunner().invoke(app, ["secret", "set", "a", VALUE, "--account", "acme"])
    assert done.exit_code == 2
    help_text = CliRunner().invoke(app, ["secret", "set", "--help"]).output
    assert "--value" not in help_text


async def test_both_clients_set_list_and_delete() -> None:
    async with make_platform() as platform:
        ask = ThreadedClient(platform)
        made = await ask(lambda client: client.secrets.set("acme", "hub-token", VALUE))
        assert await ask(lambda client: client.secrets.list("acme")) == [made]
        # The answer of the first is lost: the same again changes nothing.
        ask.bridge.lose = ["PUT"]
        again = await ask(lambda client: client.secrets.set("acme", "hub-token", VALUE))
        assert (again.created, again.fingerprint) == (made.created, made.fingerprint)
        with pytest.raises(Invalid, match="1 to 32768 bytes"):
            await ask(lambda client: client.secrets.set("acme", "hub-token", ""))
        ask.client.close()
        token = platform.admin.headers["authorization"].removeprefix("Bearer ")
        async with AsyncClient(ENDPOINT, token, http=platform.client(token)) as client:
            assert [secret.name for secret in await client.secrets.list("acme")] == ["hub-token"]
            assert (await client.secrets.set("acme", "other", VALUE)).name == "other"
            await client.secrets.delete("acme", "hub-token")
            with pytest.raises(NotFound):
                await client.secrets.delete("acme", "hub-token")


def test_a_call_does_not_show_its_body() -> None:
    from steelyard.client.calls import Calls
    from steelyard_schema.account import Account

    assert VALUE not in repr(Calls("accounts", Account).set_secret("acme", "a", VALUE))
