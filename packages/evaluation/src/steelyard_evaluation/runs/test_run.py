"""Runs against an endpoint on loopback: payments, output, refusals, and values that are never written."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import verify
from steelyard_evaluation.engine.doubles import until
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.source import Source, open_source
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, stopping, write_prompts
from steelyard_evaluation.runs.dry_run import count_calls
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.plan import new_epoch
from steelyard_evaluation.runs.request import Limits, PromptSpec, RubricSpec, SourceSpec
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import Store


def refused(number: int) -> Callable[[str], Any]:
    return lambda prompt: (
        web.Response(status=400, text="too long") if prompt == f"say {number}" else echo(prompt)
    )


async def test_every_row_is_asked_once_and_joined_with_its_question(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint() as server:
        request = make_request(prompts, server.url, replications=2)
        result = await run(request, tmp_path / "run")
    assert result.exit_code == 0
    assert sorted(server.prompts) == sorted(2 * [f"say {number}" for number in range(20)])
    rows = list(open_run(tmp_path / "run").rows())
    assert len(rows) == 40
    assert {(row.index, row.replication) for row in rows} == {(i, r) for i in range(20) for r in range(2)}
    for row in rows:
        assert row.row == {"prompt": f"say {row.index}", "target": str(row.index)}
        assert row.responses is not None
        assert row.responses[0]["text"] == str(row.index)
        assert row.responses[0]["prompt_tokens"] == 10


async def test_a_finished_run_asks_nothing_again(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run")
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert len(server.bodies) == 20
    assert (result.exit_code, result.resumed) == (0, 20)


async def test_a_stopped_run_awaits_its_calls_and_goes_on_from_there(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 200)
    context = RunContext()
    async with endpoint(stopping(context, 30)) as server:
        with pytest.raises(Interrupted, match="to go on: steelyard eval run"):
            await run(make_request(prompts, server.url), tmp_path / "run", context)
        before = len(server.bodies)
        assert 0 < before < 200
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert result.resumed == before
    assert len(server.bodies) == 200  # nothing was paid twice


async def test_a_run_whose_request_was_moved_away_goes_on_by_its_whole_command(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run")
        (tmp_path / "run/run.yaml").unlink()
        assert (await run(make_request(prompts, server.url), tmp_path / "run")).resumed == 20


async def test_a_run_goes_on_from_its_folder_alone(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 200)
    context = RunContext()
    async with endpoint(stopping(context, 30)) as server:
        source = SourceSpec(str(prompts), columns={"text": "prompt"}, sample=150)
        request = make_request(prompts, server.url, source=source, prompt=PromptSpec(template="{{ text }}"))
        with pytest.raises(Interrupted):
            await run(request, tmp_path / "run", context)
        prompts.unlink()
        result = await run(RunFolder(tmp_path / "run").request(), tmp_path / "run")
        assert result.exit_code == 0
        scored = replace(request, rubrics=(RubricSpec("exact-match"),))
        assert (await run(scored, tmp_path / "run")).headline
        assert (await run(request, tmp_path / "run")).headline  # by what it was scored before
    assert len(server.bodies) == 150


CHANGES: dict[str, Callable[[Any], Any]] = {
    "begun with model 'm' .now 'n'": lambda request: replace(request, model="n"),
    "begun with template": lambda request: replace(request, prompt=PromptSpec(template="{{ prompt }}?")),
    "begun with system": lambda request: replace(request, prompt=PromptSpec(system="x")),
    "begun with sampling": lambda request: replace(request, prompt=PromptSpec(sampling={"seed": 1})),
    "begun with replications '1' .now '2'": lambda request: replace(request, replications=2),
    "begun with limit": lambda request: replace(request, source=replace(request.source, limit=3)),
}


@pytest.mark.parametrize("fault", CHANGES)
async def test_a_folder_takes_no_answers_to_other_questions(tmp_path: Path, fault: str) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        await run(request, tmp_path / "run")
        with pytest.raises(UsageError, match=fault):
            await run(CHANGES[fault](request), tmp_path / "run")
    assert len(server.bodies) == 4


async def test_a_folder_takes_no_answers_with_a_setting_that_is_no_longer_asked_for(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 5)
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        await run(replace(request, prompt=PromptSpec(max_length=100)), tmp_path / "run")
        with pytest.raises(UsageError, match=r"begun with max_length '100' .now 'none'"):
            await run(request, tmp_path / "run")


async def test_a_folder_takes_no_answers_to_another_file(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        await run(request, tmp_path / "run")
        write_prompts(prompts, 5)
        with pytest.raises(UsageError, match="another prompt file"):
            await run(request, tmp_path / "run")


async def test_inputs_that_were_changed_in_the_folder_are_found(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 50)
    context = RunContext()
    async with endpoint(stopping(context, 10)) as server:
        request = make_request(prompts, server.url)
        with pytest.raises(Interrupted):
            await run(request, tmp_path / "run", context)
        inputs = RunFolder(tmp_path / "run").inputs_file
        table = pq.read_table(inputs)
        pq.write_table(table.set_column(2, "target", table["prompt"]), inputs)
        with pytest.raises(SteelyardError, match="inputs"):
            await run(request, tmp_path / "run")


async def test_a_newer_command_takes_a_run_over(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 300)
    asked, asked_again = 0, asyncio.Event()

    async def answer(prompt: str) -> JsonValue:
        """Answer the first row when the newer command asks for it, too: until then the older one cannot end."""
        nonlocal asked
        if prompt == "say 0":
            asked += 1
            if asked > 1:
                asked_again.set()
            await asked_again.wait()
        return prompt

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url)
        older = asyncio.create_task(run(request, tmp_path / "run"))
        await until(lambda: len(server.bodies) >= 20)
        newer = await run(request, tmp_path / "run")
        with pytest.raises(RunFailed, match="another command has taken this run over"):
            await older
    assert newer.exit_code == 0
    assert len({(row.index) for row in open_run(tmp_path / "run").rows()}) == 300


async def test_a_newer_command_takes_a_run_over_whose_answers_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = RunFolder(tmp_path / "run").outputs

    async def overtake(dataset: Store) -> Source:
        await claim(outputs, await new_epoch(outputs, RunContext().now()))
        return await open_source(dataset)

    monkeypatch.setattr(verify, "open_source", overtake)
    async with endpoint() as server:
        with pytest.raises(RunFailed, match="another command has taken this run over"):
            await run(make_request(write_prompts(tmp_path / "p.parquet", 3), server.url), tmp_path / "run")


async def test_an_epoch_outranks_those_before_whatever_the_clocks_say(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    context = RunContext()
    await store.create(".steelyard/epoch/9000000000-aaaaaaaa-0001", b"")
    assert await new_epoch(store, context.now()) > "9000000001"


async def test_a_cap_stops_a_run_that_can_go_on(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 60)
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        capped = replace(request, limits=Limits(concurrency=4, max_tokens_total=240))
        result = await run(capped, tmp_path / "run")
        assert (result.exit_code, result.manifest) == (4, None)
        assert "240 tokens" in (result.stopped or "")
        assert len(server.bodies) <= 20
        assert (await run(request, tmp_path / "run")).exit_code == 0
    assert len(server.bodies) == 60


async def test_a_cap_of_the_service_stops_a_run_that_can_go_on(tmp_path: Path) -> None:
    prompts, calls, most = write_prompts(tmp_path / "p.parquet", 60), 0, 20
    stop = {"type": "service_stopped", "code": "SpendCapReached", "message": "the cap of 5 USD is reached"}

    def answer(prompt: str) -> JsonValue:
        nonlocal calls
        calls += 1
        return prompt if calls <= most else web.json_response({"error": stop}, status=402)

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url, limits=Limits(concurrency=4))
        result = await run(request, tmp_path / "run")
        assert (result.exit_code, result.manifest) == (4, None)
        assert result.stopped == "the cap of 5 USD is reached; 20 of 60 rows are done"
        most = 100
        assert (await run(request, tmp_path / "run")).exit_code == 0


async def test_a_refused_row_is_recorded_and_the_rest_done(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint(refused(7)) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert result.exit_code == 3
    done = open_run(tmp_path / "run")
    assert [row.index for row in done.rows() if row.responses is None] == [7]
    ((key, error),) = done.row_errors.items()
    assert key[0] == 7
    assert (error["status"], error["body"]) == (400, "too long")


async def test_under_abort_a_refused_row_ends_the_run_and_names_itself(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint(refused(7)) as server:
        request = make_request(prompts, server.url, policy="Abort")
        with pytest.raises(RunFailed, match=r"index 7.*too long.*--bad-rows skip"):
            await run(request, tmp_path / "run")
        assert (await run(replace(request, policy="Skip"), tmp_path / "run")).exit_code == 3
    assert server.prompts.count("say 3") == 1


async def test_a_run_that_is_cancelled_calls_no_more(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 500)
    async with endpoint() as server:
        running = asyncio.create_task(run(make_request(prompts, server.url), tmp_path / "run"))
        await until(lambda: len(server.bodies) >= 10)
        running.cancel()
        await asyncio.wait([running])
        before = len(server.bodies)
        await asyncio.sleep(0.05)
        assert len(server.bodies) == before
        assert (await run(make_request(prompts, server.url), tmp_path / "run")).exit_code == 0


async def test_the_key_is_sent_and_never_written(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint(refused(1)) as server:
        context = RunContext(environment={"MY_KEY": "sk-secret-1234"})
        await run(make_request(prompts, server.url, api_key_env="MY_KEY"), tmp_path / "run", context)
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-secret-1234"}
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"sk-secret" not in written


@pytest.mark.parametrize("policy", ["Skip", "Abort"])
async def test_a_key_that_the_service_repeats_is_not_written(tmp_path: Path, policy: str) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 2)
    context = RunContext(environment={"OPENAI_API_KEY": "sk-secret-1234"})
    said = {"say 0": web.Response(status=400, text="who is sk-secret-1234?")}
    async with endpoint(lambda prompt: said.get(prompt, "1")) as server:
        request = make_request(prompts, server.url, policy=policy)
        if policy == "Abort":
            with pytest.raises(RunFailed, match=r"who is \[the key\]\?"):
                await run(request, tmp_path / "run", context)
            return
        await run(request, tmp_path / "run", context)
    ((_, error),) = open_run(tmp_path / "run").row_errors.items()
    assert error["body"] == "who is [the key]?"


@pytest.mark.parametrize("whose", ["model", "judge"])
async def test_a_password_in_a_url_is_refused_before_it_is_written(tmp_path: Path, whose: str) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    bare, with_password = "http://127.0.0.1:1/v1", "http://u:hunter2@127.0.0.1:1/v1"
    judge = JudgeSpec("j", urls=(bare if whose == "model" else with_password,))
    request = make_request(prompts, with_password if whose == "model" else bare, judges=(judge,))
    with pytest.raises(UsageError, match="has no user") as refusal:
        await run(request, tmp_path / "run")
    assert "hunter2" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


async def test_without_a_key_none_is_sent(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 1)
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run", RunContext(environment={}))
    assert "Authorization" not in server.headers[0]


async def test_a_key_to_sign_with_that_is_none_is_reported_before_the_first_call(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    (tmp_path / "key.pem").write_text("no key")
    async with endpoint() as server:
        with pytest.raises(UsageError, match=r"--sign-key .*key\.pem"):
            await run(make_request(prompts, server.url), tmp_path / "run", sign_key=tmp_path / "key.pem")
    assert server.bodies == []


def test_a_dry_run_counts_calls_and_bytes_and_writes_nothing(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", [{"prompt": "x" * 400}, {"prompt": None}])
    prompt = PromptSpec(sampling={"max_tokens": 50})
    request = make_request(prompts, "http://127.0.0.1:1/v1", replications=2, prompt=prompt)
    expected = count_calls(resolve(request, tmp_path / "run"))
    assert (expected.calls, expected.fault_count, expected.completion_tokens) == (2, 1, 100)
    assert 200 <= expected.prompt_tokens <= 250
    assert not (tmp_path / "run").exists()


async def test_a_run_says_where_it_came_from(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 2)
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run")
    record = orjson.loads(RunFolder(tmp_path / "run").run_json.read_bytes())
    assert record["identity"]["model"] == "m"
    assert record["settings"]["urls"] == [server.url]


CONVERSATIONS: list[JsonValue] = [
    [{"role": "user", "content": "a"}],
    [{"role": "user", "content": "b", "name": "c"}],
    [{"role": "user", "content": [{"type": "text", "text": "d"}]}],
    [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}],
    "only text",
]


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet", "p.arrow"])
async def test_the_messages_that_are_sent_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    """Keys that one message has are not added to the others; Arrow and Parquet hold no mixed column."""
    conversations = CONVERSATIONS if name == "p.jsonl" else [*CONVERSATIONS[:2], CONVERSATIONS[3]]
    rows: list[Any] = [{"prompt": conversation, "target": "1"} for conversation in conversations]
    path = tmp_path / name
    if name == "p.jsonl":
        path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    elif name == "p.parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    async with endpoint(lambda _: "1") as server:
        await run(make_request(path, server.url), tmp_path / "run")
    sent = sorted(orjson.dumps(body["messages"]) for body in server.bodies)
    asked = [
        text if isinstance(text, list) else [{"role": "user", "content": text}] for text in conversations
    ]
    assert sent == sorted(map(orjson.dumps, asked))
