"""Answers of status 200 without content: on every row they end the run, and on some rows they are these rows'
errors."""

from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, stopping, write_prompts
from steelyard_evaluation.runs.request import Limits, PromptSpec, RubricSpec
from steelyard_evaluation.runs.run import run

PAGE = "<html><head><title>Login</title></head><body><h1>Please log in</h1></body></html>"
NO_ANSWERS: dict[str, tuple[str | JsonValue, str]] = {
    "a page to log in": (PAGE, "Please log in"),
    "nothing": ("", "the answer is not JSON"),
    "an error": ({"error": {"message": "no such key"}}, "no such key"),
    "an error without a frame": ({"detail": "no such key"}, "no such key"),
    "an error in a list": ([{"error": {"message": "no such key"}}], "no such key"),
    "no choices": ({"object": "chat.completion", "choices": []}, r'"choices": ?\[\]'),
    "choices of null": ({"choices": None}, "has no choices"),
    "a choice without a text": ({"choices": [{"finish_reason": "stop"}]}, "has not the shape"),
    "null for a text": (
        {
            "choices": [
                {"message": {"content": None, "tool_calls": []}, "text": None, "finish_reason": "stop"}
            ]
        },
        "has no text, and nothing in its place",
    ),
    "a number": (7, "has no choices"),
}
"""Answers of status 200 without content, and the words of the server or of ours that stand in the message."""
STREAMED: dict[str, tuple[str, str]] = {
    "an error": ('{"error": {"message": "no such key"}}', "no such key"),
    "a page to log in": (PAGE, "Please log in"),
    "nothing": ("[DONE]", "the stream has no event"),
    "no choices": ('{"choices": []}', "without saying how the answer ended"),
    "no text": ('{"choices": [{"delta": {}, "finish_reason": "stop"}]}', "every row is refused"),
}
FORMS = {
    "chat": PromptSpec("chat"),
    "completions": PromptSpec("completions"),
    "more stops than the endpoint takes": PromptSpec("completions", sampling={"stop": list("abcdefgh")}),
    "rows of lm-eval": PromptSpec("loglikelihood", settings="settings"),
}


def at_once() -> RunContext:
    """A context in which a call is tried again without a pause."""
    return RunContext(jitter=lambda: 0.0)


def response_of(answer: str | JsonValue) -> web.Response:
    if isinstance(answer, str):
        return web.Response(text=answer, content_type="text/html")
    return web.json_response(answer)


def write_rows(path: Path, rows: int) -> Path:
    """Prompts that lm-eval's form takes as well: each row generates a text."""
    more = {"kind": "generate_until", "context": 0, "settings": '{"max_tokens": 4}'}
    return write_prompts(path, [{"prompt": f"say {row}", "target": str(row), **more} for row in range(rows)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_an_answer_of_status_200_that_is_none_on_every_row_ends_the_run(
    tmp_path: Path, name: str, form: str
) -> None:
    prompts, (answer, said) = write_rows(tmp_path / "p.parquet", 5), NO_ANSWERS[name]
    async with endpoint(lambda _: response_of(answer)) as server:
        request = make_request(prompts, server.url, prompt=FORMS[form], rubrics=(RubricSpec("exact-match"),))
        with pytest.raises(RunFailed, match=rf"every row is refused \(status 200: .*{said}"):
            await run(request, tmp_path / "run", at_once())
    assert not (tmp_path / "run" / "report.html").exists()
    assert not (tmp_path / "run" / "outputs").exists()
    async with endpoint() as server:
        request = make_request(prompts, server.url, prompt=FORMS[form])
        assert (await run(request, tmp_path / "run")).exit_code == 0


@pytest.mark.parametrize("form", ["chat", "completions"])
@pytest.mark.parametrize("name", STREAMED)
async def test_a_stream_that_is_no_answer_on_every_row_ends_the_run(
    tmp_path: Path, name: str, form: str
) -> None:
    prompts, (data, said) = write_rows(tmp_path / "p.parquet", 20), STREAMED[name]

    def answer(_: str) -> web.Response:
        return web.Response(text=f"data: {data}\n\ndata: [DONE]\n\n", content_type="text/event-stream")

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url, prompt=FORMS[form], rubrics=(RubricSpec("exact-match"),))
        with pytest.raises(RunFailed, match=said):
            await run(request, tmp_path / "run", at_once())
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_no_answers_end_a_long_run_before_all_rows_are_asked(tmp_path: Path, name: str) -> None:
    prompts, (answer, said) = write_prompts(tmp_path / "p.parquet", 2000), NO_ANSWERS[name]
    numbers = iter(range(100_000))

    def reply(_: str) -> web.Response:
        return response_of({"id": f"c-{next(numbers)}", **answer} if isinstance(answer, dict) else answer)

    async with endpoint(reply, seconds=0.01) as server:
        with pytest.raises(RunFailed, match=said):
            await run(make_request(prompts, server.url), tmp_path / "run")
    assert len(server.bodies) < 2000


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_an_answer_that_is_none_on_some_rows_is_about_them(tmp_path: Path, name: str) -> None:
    """A run that goes on may have no other rows left."""
    prompts, (answer, _) = write_prompts(tmp_path / "p.parquet", 6), NO_ANSWERS[name]
    context = at_once()
    said = stopping(context, 3)
    limits = Limits(concurrency=1, retries=2)

    def reply(prompt: str) -> JsonValue:
        return response_of(answer) if int(echo(prompt)) >= 3 else said(prompt)

    async with endpoint(reply) as server:
        request = make_request(prompts, server.url, limits=limits)
        with suppress(Interrupted):
            await run(request, tmp_path / "run", context)
        result = await run(request, tmp_path / "run", at_once())
    assert (result.exit_code, result.manifest and result.manifest.rows.errors) == (3, 3)


async def test_an_error_about_rows_with_status_200_is_their_error(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    error = {"error": {"message": "flagged by moderation", "code": 403}}
    async with endpoint(lambda _: web.json_response(error)) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run", at_once())
    assert (result.exit_code, result.manifest and result.manifest.rows.errors) == (3, 3)


EXPLAINED: dict[str, JsonValue] = {
    "a call of a tool": {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    "a call of a function": {"function_call": {"name": "f", "arguments": "{}"}},
    "a refusal": {"refusal": "I cannot say."},
    "thoughts": {"reasoning_content": "Let me see."},
    "the end at a limit": {"finish_reason": "length"},
    "a filter": {"finish_reason": "content_filter"},
    "an empty text": {"content": ""},
}


@pytest.mark.parametrize("name", EXPLAINED)
async def test_an_answer_without_a_text_that_is_explained_is_one(tmp_path: Path, name: str) -> None:
    message = {"content": None, **EXPLAINED[name]}
    choice = {"finish_reason": message.pop("finish_reason", "stop"), "message": message}
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint(lambda _: web.json_response({"choices": [choice]})) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run", at_once())
    assert result.exit_code == 0
