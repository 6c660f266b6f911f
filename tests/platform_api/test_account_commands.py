"""`steelyard account …` and `steelyard token`, against the API as it is served."""

import asyncio
from pathlib import Path

import httpx
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from tests.platform_api.test_served import Served, served


async def steelyard(to: Served, *arguments: str) -> Result:
    asked = [*arguments, "--endpoint", to.url, "--token", to.token]
    return await asyncio.to_thread(CliRunner().invoke, app, asked)


async def said(to: Served, *arguments: str) -> str:
    result = await steelyard(to, *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.stdout.strip())


async def test_an_account_is_made_suspended_and_let_in_again(tmp_path: Path) -> None:
    async with served(tmp_path) as to, httpx.AsyncClient(base_url=to.url) as http:
        id = (await said(to, "account", "create", "team")).removeprefix("accounts/")
        headers = {"Authorization": f"Bearer {await said(to, 'token', 'team')}"}
        assert (await http.get("/models", headers=headers)).status_code == 200
        assert await said(to, "account", "suspend", "team") == f"accounts/{id} Suspended"
        assert (await http.get("/models", headers=headers)).status_code == 401
        assert await said(to, "account", "reactivate", id) == f"accounts/{id} Active"
        assert (await said(to, "account", "rotate-key")).startswith("signing key ")
        assert (await http.get("/models", headers=headers)).status_code == 200


async def test_a_token_beyond_the_account_names_the_way_out(tmp_path: Path) -> None:
    async with served(tmp_path) as to:
        await said(to, "account", "create", "team", "--functions", "get,query")
        refused = await steelyard(to, "token", "team")
        assert refused.exit_code == 1
        assert "get,query of * of team" in str(refused.exception)
        assert "steelyard account permit team" in str(refused.exception)
        await said(to, "account", "permit", "team")
        assert (await said(to, "token", "team")).count(".") == 2
