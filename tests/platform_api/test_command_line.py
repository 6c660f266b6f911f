"""The commands for entities and accounts, against the API as it is served."""

import asyncio
import json
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from tests.platform_api.memory_platform import service
from tests.platform_api.test_served import ServedPlatform, served


async def steelyard(to: ServedPlatform, *arguments: str) -> Result:
    command = [*arguments, "--endpoint", to.url, "--token", to.token]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


async def said(to: ServedPlatform, *arguments: str) -> str:
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


async def test_a_refusal_names_the_document(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("kind: Account\nname: team\n---\nkind: Evaluation\naccount: team\nreplications: -1\n")
    async with served(tmp_path / "state") as to:
        refused = await steelyard(to, "apply", "-f", str(path))
        assert refused.exit_code == 1
        assert str(refused.exception).startswith(f"{path}, document 2: ")
        assert "replications: should be greater than or equal to 1, and is -1" in str(refused.exception)


async def test_entities_are_made_shown_and_deleted_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"_index_": [1, 2]}), tmp_path / "rows" / "rows.parquet")
    described = {"kind": "InferenceService", "account": "acme", **service()}
    (tmp_path / "entities.yaml").write_text(json.dumps(described))
    async with served(tmp_path / "state") as to:
        data = await said(to, "upload", "dataset", str(tmp_path / "rows"), "--account", "acme")
        made = await said(to, "apply", "-f", str(tmp_path / "entities.yaml"))
        assert made == await said(to, "apply", "-f", str(tmp_path / "entities.yaml"))
        used, rows = made.partition("/")[2], data.partition("/")[2]
        session = json.dumps({"inferenceService": used})
        evaluation = f"kind: Evaluation\naccount: acme\ndataset: {rows}\ninferenceSession: {session}\n"
        (tmp_path / "evaluation.yaml").write_text(evaluation)
        created = await said(to, "create", "-f", str(tmp_path / "evaluation.yaml"))
        assert created == await said(to, "get", "evaluations", "-w", f"dataset={rows}", "-o", "name")
        assert await said(to, "label", "isvc", used, "team=red") == f"inferenceservices/{used} labelled"
        assert "team=red" in await said(to, "describe", "isvc", used[:8])
        deleted = await steelyard(to, "delete", "isvc", used)
        assert deleted.exit_code == 0
        assert f"warning: InferenceService {used} is used by 1 evaluation" in deleted.stderr
        assert "terminated" in await said(to, "terminate", "eval", created.partition("/")[2])


async def test_an_entity_is_published(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as to:
        made = await said(to, "create", "-f", str(a_challenge(tmp_path)))
        for access, label in (("public", "public"), ("internal", "internal"), ("private", None)):
            assert await said(to, "publish", "challenge", "Chess", "--access", access) == f"{made} {access}"
            shown = json.loads(await said(to, "get", "challenge", "Chess", "-o", "json"))
            assert shown.get("labels", {}).get("dyff.io/access") == label
        for arguments, error in (
            (
                ("challenge", "Chess", "--access", "preview"),
                "--access: 'preview' should be public, internal or private",
            ),
            (("team", "Chess", "--access", "public"), "teams have no publication; these do: "),
            (("challenge", "Go", "--access", "public"), "Go: no id begins with it"),
        ):
            refused = await steelyard(to, "publish", *arguments)
            assert isinstance(refused.exception, UsageError)
            assert str(refused.exception).startswith(error)


async def test_an_account_is_labelled_and_found_by_its_label(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as to:
        made = await said(to, "account", "create", "team-red")
        assert await said(to, "label", "account", "team-red", "group=readers") == f"{made} labelled"
        listed = await said(to, "get", "accounts", "-w", 'labels={"group": "readers"}', "-o", "name")
        assert listed == made
        await said(to, "label", "acc", "team-red", "group-")
        assert "group" not in await said(to, "describe", "acc", "team-red")


async def test_what_is_deleted_is_shown_when_it_is_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as to:
        made = [(await said(to, "create", "-f", str(a_challenge(tmp_path)))) for _ in range(2)]
        ids = [name.partition("/")[2] for name in made]
        await said(to, "delete", "challenge", ids[0])
        assert await said(to, "get", "challenges", "-o", "name") == made[1]
        shown = await said(to, "get", "challenges", "--deleted", "-o", "name")
        assert shown.split() == made
        assert await said(to, "get", "challenges", "-w", "status=Deleted", "-o", "name") == made[0]
        assert await said(to, "get", "challenges", ids[0], "-o", "name") == made[0]
        # The name means the one that is there.
        assert ids[1] in await said(to, "describe", "challenge", "Chess")


async def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    nobody = "0" * 32
    async with served(tmp_path / "state") as to:
        await said(to, "create", "-f", str(a_challenge(tmp_path)))
        result = await steelyard(to, "get", "teams", "-w", f"challenge={nobody}")
        assert (result.exit_code, result.stdout.strip()) == (0, "nothing found")
        assert f"there is no challenge {nobody}; `steelyard get challenges`" in result.stderr
        result = await steelyard(to, "get", "teams", "-w", "status=Activ,Active")
        assert (result.exit_code, result.stdout.strip()) == (0, "nothing found")
        assert "status=Activ: teams have none such; there are " in result.stderr
        assert "status=Active:" not in result.stderr
        for team in (nobody, "Strangers"):
            result = await steelyard(to, "team", "approve", team)
            assert isinstance(result.exception, UsageError)
            assert "`steelyard get teams` lists what there is" in str(result.exception)


def a_challenge(folder: Path) -> Path:
    path = folder / "challenge.yaml"
    path.write_text("kind: Challenge\naccount: acme\ncontent: {page: {title: Chess}}\n")
    return path


async def test_failed_steps_run_again(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"_index_": [1, 2]}), tmp_path / "rows" / "rows.parquet")
    async with served(tmp_path / "state") as to:
        data = (await said(to, "upload", "dataset", str(tmp_path / "rows"), "--account", "acme")).partition(
            "/"
        )[2]
        asked: Json = {"kind": "PipelineEvaluationRequest", "dataset": data}
        asked["inferenceSession"] = {"inferenceService": "$(service)"}
        documents = [
            {"kind": "InferenceService", "account": "acme", "as": "service", **service()},
            {
                "kind": "Pipeline",
                "account": "acme",
                "as": "pipeline",
                "name": "p",
                "nodes": {"ask": {"name": "ask", "request": asked}},
            },
            {"kind": "PipelineRun", "account": "acme", "pipeline": "$(pipeline)"},
        ]
        (tmp_path / "run.yaml").write_text("\n---\n".join(json.dumps(one) for one in documents))
        run = (await said(to, "create", "-f", str(tmp_path / "run.yaml"))).split()[-1].partition("/")[2]
        for option in (["--failed"], ["--step", "ask"], []):
            again = await said(to, "rerun", "pipelinerun", run[:8], *option)
            assert f"value: {run}" in await said(to, "describe", "pipelinerun", again.partition("/")[2])
        result = await steelyard(to, "rerun", "pipelinerun", "0" * 32, "--failed", "--step", "ask")
        assert "--step and --failed: give one of them" in str(result.exception)
        result = await steelyard(to, "rerun", "evaluation", "0" * 32, "--failed")
        assert "--failed: evaluations have no steps" in str(result.exception)
        result = await steelyard(to, "rerun", "team", "0" * 32)
        assert "teams have no workflow to run again; these do: datasets, datasources" in str(result.exception)


async def test_a_terminated_workflow_runs_again(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as to:
        document = {"kind": "InferenceService", "account": "acme", **service()}
        (tmp_path / "service.yaml").write_text(json.dumps(document))
        made = await said(to, "create", "-f", str(tmp_path / "service.yaml"))
        result = await steelyard(to, "rerun", "isvc", "service")
        assert "is Created: terminate it before it runs again" in str(result.exception)
        await said(to, "terminate", "isvc", "service")
        again = await said(to, "rerun", "isvc", "service")
        assert again.startswith("inferenceservices/")
        assert again != made
        shown = await said(to, "describe", "isvc", again.partition("/")[2])
        assert f"value: {made.partition('/')[2]}" in shown


async def test_a_dataset_is_described_and_takes_a_description(tmp_path: Path) -> None:
    rows, file = tmp_path / "rows", tmp_path / "croissant.json"
    rows.mkdir()
    pq.write_table(pa.table({"_index_": [1, 2]}), rows / "rows.parquet")
    async with served(tmp_path / "state") as to:
        made = await said(to, "upload", "dataset", str(rows), "--account", "acme")
        id = made.partition("/")[2]
        shown = json.loads(await said(to, "croissant", "show", id[:8]))
        file.write_text(json.dumps({**shown, "name": "Two rows"}))
        result = await steelyard(to, "croissant", "take", id, str(file))
        assert result.stdout.startswith("taken: name, ")
        assert "left out: identifier: is not a part that is kept" in result.stderr
        assert json.loads(await said(to, "croissant", "show", id))["name"] == "Two rows"
        for content, fault in (
            ("{", "is not JSON: "),
            ("[1]", "is not a JSON object"),
            (f"[{'[],' * 300_000}1]", "has more than 250000 lists and objects, which are allowed"),
            (None, "cannot be read"),
        ):
            file.unlink() if content is None else file.write_text(content)
            result = await steelyard(to, "croissant", "take", id, str(file))
            assert isinstance(result.exception, UsageError)
            assert str(result.exception).startswith(f"{file}: {fault}")


async def test_a_version_gets_a_tag_and_an_entity_its_texts(tmp_path: Path) -> None:
    (tmp_path / "entities.yaml").write_text(
        "kind: Family\naccount: acme\nmemberKind: Model\n---\nkind: Model\naccount: acme\nname: small\n"
        "artifact: {kind: Mock}\nsource: {kind: Mock}\nstorage: {medium: Mock}\nresources: {storage: '0'}\n"
    )
    (tmp_path / "page.md").write_text("# Small\n")
    async with served(tmp_path / "state") as to:
        family, model = (await said(to, "create", "-f", str(tmp_path / "entities.yaml"))).splitlines()
        id = family.partition("/")[2]
        assert await said(to, "family", "tag", id[:8], "v1", "small") == f"{id}@v1 is {model}"
        assert "v1:" in await said(to, "describe", "family", id)
        assert await said(to, "family", "untag", id, "v1") == f"{id}@v1 is not a tag any more"
        refused = await steelyard(to, "family", "untag", id, "v1")
        assert str(refused.exception) == "v1: is not a tag of the family; there are none"
        assert await said(to, "document", "model", "small") == f"{model} has no documentation"
        texts = ("--title", "Small model", "--page", str(tmp_path / "page.md"))
        assert await said(to, "document", "model", "small", *texts) == "Small model\n\n# Small"
        assert await said(to, "document", "model", model.partition("/")[2], "--title", "") == "# Small"
        (tmp_path / "page.md").write_bytes("# Größe".encode("latin-1"))
        refused = await steelyard(to, "document", "model", "small", "--page", str(tmp_path / "page.md"))
        assert str(refused.exception) == f"--page {tmp_path}/page.md: is not text in UTF-8"


async def test_an_organiser_approves_and_denies_a_team(tmp_path: Path) -> None:
    (tmp_path / "challenge.yaml").write_text(
        "kind: Challenge\naccount: acme\ncontent: {page: {title: Chess}}\n"
    )
    async with served(tmp_path / "state") as to:
        made = (await said(to, "create", "-f", str(tmp_path / "challenge.yaml"))).partition("/")[2]
        assert "Chess" in await said(to, "get", "challenges")
        member = {"name": "Rusty", "isCorrespondingMember": True, "affiliations": ["venture"]}
        people = {"members": {"rusty": member}, "affiliations": {"venture": {"name": "Venture"}}}
        entering = {"kind": "Team", "account": "acme", "challenge": made, "name": "Knights", **people}
        (tmp_path / "team.yaml").write_text(json.dumps(entering))
        team = await said(to, "create", "-f", str(tmp_path / "team.yaml"))
        assert await said(to, "team", "approve", "Knights") == f"{team} Active"
        assert await said(to, "team", "deny", team.partition("/")[2][:8]) == f"{team} EntryDenied"
