"""Several requests behind one row: stops beyond what an endpoint takes, and likelihoods of texts."""

from dataclasses import dataclass, field

import orjson
import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.call import Failure, Fault, Outcome, read_failure
from steelyard_evaluation.engine.completions import CompletionsClient, Tokenizer, likelihood_body, windows
from steelyard_evaluation.engine.endings import unknown_reasons
from steelyard_evaluation.engine.model_servers import ModelServer, generate
from steelyard_evaluation.engine.openai import completions_encoder, reader, within
from steelyard_evaluation.engine.tokens import likelihood

STOPS = ["zzz", "one", "two", "three", "it", "\n"]
QUESTION = "Q: 7 + 8\nA:"


@dataclass
class Direct:
    """A client that asks a double without a network."""

    server: ModelServer
    path: str = "/v1/completions"
    closed: bool = False
    bodies: list[JsonValue] = field(default_factory=list)

    async def call(self, body: bytes) -> Outcome:
        self.bodies.append(orjson.loads(body))
        status, answer = self.server.reply(self.path, self.bodies[-1])
        data = orjson.dumps(answer)
        return data if status == 200 else read_failure(status, {}, data)

    async def close(self) -> None:
        self.closed = True


def client(server: ModelServer, *, tokenize: bool = True, **changes: JsonValue) -> CompletionsClient:
    tokenizer = Tokenizer("../tokenize", 1 if server.bos else 0, server.max_length) if tokenize else None
    tokenizing = Direct(server, "/tokenize") if tokenize else None
    return CompletionsClient(Direct(server), tokenizing, tokenizer, **changes)


async def response_to(server: ModelServer, body: bytes, **changes: JsonValue) -> dict[str, JsonValue]:
    """The response that the reader makes of it."""
    outcome = await client(server, **changes).call(body)
    assert isinstance(outcome, bytes), outcome
    (response,) = reader("loglikelihood")(outcome)
    return response


def cut_at(text: str) -> str:
    return text[: min(place for stop in STOPS if (place := text.find(stop)) >= 0)]


STREAM_WITHOUT_AN_END = b'data: {"choices":[{"index":0,"text":"one"}]}\n\n'


MANY_STOPS = within(completions_encoder("m", {"stop": STOPS}), {"stop": STOPS})(QUESTION)


def answer_of(reason: str) -> bytes:
    """An endpoint's answer that ended for this reason."""
    return orjson.dumps({"choices": [{"index": 0, "text": "one", "finish_reason": reason}]})


@dataclass
class Answering(Direct):
    """A client that gets the same answer to everything."""

    answer: bytes = b""

    async def call(self, body: bytes) -> Outcome:
        return self.answer


@pytest.mark.parametrize("answer", [answer_of("abort"), STREAM_WITHOUT_AN_END], ids=["abort", "a stream"])
@pytest.mark.parametrize(
    "body",
    [
        MANY_STOPS,
        likelihood_body("m", QUESTION + " 15", len(QUESTION)),
        likelihood_body("m", QUESTION, 0),
    ],
    ids=["more stops than are taken", "a continuation", "a text after nothing"],
)
async def test_an_answer_that_was_cut_short_is_none_where_a_row_needs_several_requests(
    body: bytes, answer: bytes
) -> None:
    tokenizing = Direct(ModelServer(kind="vllm"), "/tokenize")
    asking = CompletionsClient(Answering(ModelServer(), answer=answer), tokenizing, Tokenizer("", 0, 100))
    outcome = await asking.call(body)
    assert isinstance(outcome, Failure)
    assert outcome.fault is Fault.TRANSIENT
    assert "cut short" in outcome.message


async def test_an_unknown_reason_is_counted_behind_many_stops_too() -> None:
    asking = CompletionsClient(Answering(ModelServer(), answer=answer_of("tired")))
    outcome = await asking.call(MANY_STOPS)
    assert isinstance(outcome, bytes)
    assert unknown_reasons(outcome) == ["tired"]


@pytest.mark.parametrize("takes", [None, 6, 4, 2, 1, 0])
@pytest.mark.parametrize("sent", [0, 1, 4, 6, 9])
async def test_an_answer_ends_at_the_first_of_all_stops_whatever_the_endpoint_takes(
    takes: int | None, sent: int
) -> None:
    sampling = {"stop": STOPS, "max_tokens": 60}
    body = within(completions_encoder("m", sampling), sampling, sent)(QUESTION)
    server = ModelServer(most_stops=takes)
    response = await response_to(server, body, most_stops=sent)
    assert response["text"] == cut_at(generate(QUESTION))
    assert response["finish_reason"] == "stop"
    whole = response.get("uncut")
    assert whole is None or (whole.startswith(response["text"]) and whole != response["text"])
    assert (whole is None) == (min(6, 99 if takes is None else takes, max(sent, 0)) == 6)


async def test_what_an_endpoint_refused_it_is_not_asked_again() -> None:
    sampling = {"stop": STOPS, "max_tokens": 60}
    server = ModelServer(most_stops=2)
    body, calls = within(completions_encoder("m", sampling), sampling)(QUESTION), client(server)
    await calls.call(body)
    before = len(server.bodies)
    await calls.call(body)
    assert [len(body["stop"]) for body in server.bodies[before:]] == [2]


class Refusing(Direct):
    """Refuses every request for a parameter other than a stop."""

    async def call(self, body: bytes) -> Outcome:
        await super().call(body)
        return read_failure(400, {}, b'{"error": {"message": "no", "param": "temperature"}}')


async def test_another_refusal_is_reported_as_it_is() -> None:
    direct = Refusing(ModelServer())
    body = within(completions_encoder("m", {"stop": STOPS}), {"stop": STOPS})("x")
    outcome = await CompletionsClient(direct).call(body)
    assert isinstance(outcome, Failure)
    assert (outcome.status, len(direct.bodies)) == (400, 1)


@pytest.mark.parametrize("server", [ModelServer(), ModelServer(bos=True)], ids=["plain", "with BOS"])
@pytest.mark.parametrize("tokenize", [True, False])
async def test_a_continuation_has_the_likelihood_of_its_own_tokens(
    server: ModelServer, tokenize: bool
) -> None:
    prompt = "The river and the stone"
    response = await response_to(
        server, likelihood_body("m", prompt, len("The river and the")), tokenize=tokenize
    )
    kept = orjson.loads(response["text"])
    assert "".join(kept["tokens"]) == " stone"
    assert kept["context_tokens"] == ((5 + server.bos) if tokenize else None)
    assert likelihood(kept["logprobs"], kept["tops"])[0] < 0


async def test_where_the_border_lies_inside_a_token_the_context_keeps_its_own_tokens() -> None:
    """Whole: "The", " cop", "pers"; the context alone: "The", " co". lm-eval asks for "The", " co", "pers"."""
    server = ModelServer()
    kept = orjson.loads(
        (await response_to(server, likelihood_body("m", "The coppers", len("The co"))))["text"]
    )
    assert kept["tokens"] == ["pers"]
    assert server.vocabulary.texts(server.bodies[0]["prompt"]) == ["The", " co", "pers"]


async def test_a_continuation_without_a_token_of_its_own_has_no_likelihood() -> None:
    kept = orjson.loads(
        (await response_to(ModelServer(), likelihood_body("m", "The copp", len("The cop"))))["text"]
    )
    assert "p" in kept["tokens"]
    kept = orjson.loads(
        (await response_to(ModelServer(), likelihood_body("m", "The cop", len("The co"))))["text"]
    )
    assert kept == {"fault": "no token is left after those of the context"}


async def test_a_text_after_nothing_is_asked_as_ids_behind_the_prefix() -> None:
    server = ModelServer()
    kept = orjson.loads((await response_to(server, likelihood_body("m", "the river", 0)))["text"])
    assert "".join(kept["tokens"]) == "the river"
    assert server.bodies[0]["prompt"][0] == 0


async def test_a_long_text_is_asked_in_windows_and_every_token_counts_once() -> None:
    server = ModelServer(max_length=6)
    text = "one two three four five six seven eight nine ten"
    kept = orjson.loads((await response_to(server, likelihood_body("m", text, 0, rolling=True)))["text"])
    assert "".join(kept["tokens"]) == text
    assert kept["windows"] == len(server.bodies) > 2
    assert all(len(body["prompt"]) < server.max_length for body in server.bodies)


async def test_a_text_longer_than_the_model_takes_is_refused_and_not_cut() -> None:
    outcome = await client(ModelServer(max_length=6)).call(likelihood_body("m", "one two three four five", 0))
    assert isinstance(outcome, Failure)
    assert "the model takes 4 at once" in outcome.message


LONG = "one two three four five six seven eight nine ten"


async def test_a_context_that_is_too_long_is_cut_from_the_left() -> None:
    """The last tokens of context and continuation are asked, as lm-eval asks them."""
    server = ModelServer(max_length=6)
    cuts: list[int] = []
    calls = client(server, on_cut=lambda: cuts.append(1))
    outcome = await calls.call(likelihood_body("m", f"{LONG} stone", len(LONG)))
    assert isinstance(outcome, bytes), outcome
    (response,) = reader("loglikelihood")(outcome)
    kept = orjson.loads(response["text"])
    (asked,) = server.bodies
    whole = server.vocabulary.encode(f"{LONG} stone")
    assert asked["prompt"] == whole[-5:]
    assert "".join(kept["tokens"]) == " stone"
    assert (kept["cut"], cuts) == (len(whole) - 5, [1])
    fits = orjson.loads(
        (await response_to(ModelServer(), likelihood_body("m", f"{LONG} stone", len(LONG))))["text"]
    )
    assert "cut" not in fits


async def test_a_continuation_that_does_not_fit_is_refused() -> None:
    outcome = await client(ModelServer(max_length=6)).call(likelihood_body("m", f"The{LONG}", len("The")))
    assert isinstance(outcome, Failure)
    assert "the model takes 4 behind its context" in outcome.message


@pytest.mark.parametrize("stop", [None, STOPS])
async def test_a_prompt_that_is_too_long_to_generate_behind_is_cut_from_the_left(stop: JsonValue) -> None:
    server, sampling = ModelServer(max_length=6), {"max_tokens": 2, **({"stop": stop} if stop else {})}
    body = within(completions_encoder("m", sampling), sampling)(LONG)
    cuts: list[int] = []
    calls = client(server, on_cut=lambda: cuts.append(1))
    outcome = await calls.call(body)
    assert isinstance(outcome, bytes), outcome
    assert server.bodies[-1]["prompt"] == server.vocabulary.encode(LONG)[-4:]
    assert cuts == [1]
    refused = await client(ModelServer(max_length=6), tokenize=False).call(body)
    assert isinstance(refused, Failure)


async def test_the_choices_of_a_question_count_its_context_once() -> None:
    server = ModelServer()
    calls = client(server)
    for choice in (" one", " two", " three"):
        await calls.call(likelihood_body("m", f"The answer is{choice}", len("The answer is")))
    assert isinstance(calls.tokenizing, Direct)
    assert len(calls.tokenizing.bodies) == 4  # the context, and each whole text


def test_windows_cover_every_token_once_and_have_a_context() -> None:
    for size in range(1, 30):
        tokens = list(range(100, 100 + size))
        for longest in range(1, 9):
            pairs = list(windows(tokens, 0, longest))
            assert [token for _, counted in pairs for token in counted] == tokens
            assert all(before and len(before) + len(counted) <= longest + 1 for before, counted in pairs)
