"""The likelihood of the end of a prompt, by every server's way of listing tokens, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_evaluation.engine.tokens import (
    NoLikelihood,
    by_count,
    by_ids,
    by_texts,
    likelihood,
    read_token_list,
)

PROMPT = "one two three"
LISTS = {
    "places from 0": ["one", " two", " three", " end"],
    "a token for the beginning": ["<s>", "one", " two", " three", " end"],
    "Llama 3's": ["<|begin_of_text|>", "one", " two", " three", " end"],
    "a blank for it": [" ", "one", " two", " three", " end"],
    "no generated token": ["<s>", "one", " two", " three"],
}


@pytest.mark.parametrize("texts", LISTS.values(), ids=LISTS.keys())
def test_a_continuation_is_found_from_the_end(texts: list[str]) -> None:
    continuation = by_texts(texts, PROMPT, len(" three"))
    assert texts[continuation.start : continuation.end] == [" three"]
    assert not continuation.inside


def test_a_token_over_the_border_belongs_to_the_continuation_and_is_reported() -> None:
    continuation = by_texts(LISTS["places from 0"], PROMPT, len("ree"))
    assert (continuation.start, continuation.end, continuation.inside) == (2, 3, True)


def test_with_the_context_s_own_tokens_the_border_lies_where_lm_eval_puts_it() -> None:
    texts = ["<s>", "ab", "cd", "ef", "x"]
    continuation = by_count(texts, "abcdef", 3, 4 - 1)  # "abc" alone is <s>, ab, c
    assert (texts[continuation.start : continuation.end], continuation.inside) == (["ef"], True)
    with pytest.raises(NoLikelihood, match="no token of the continuation"):
        by_count(texts, "abcdef", 1, 4)


def test_bytes_of_one_character_count_with_it() -> None:
    texts = ["a", " ", "", "", "日", "x"]
    continuation = by_texts(texts, "a 日", 1)
    assert (continuation.start, continuation.end) == (2, 5)


@pytest.mark.parametrize(
    ("texts", "length", "message"),
    [
        (["one", "two", "three", "x"], 5, "do not spell the prompt"),
        (["one", " two", " thr\ufffd", "x"], 6, "do not spell the prompt"),
        (["x"], 6, "do not spell the prompt"),
    ],
)
def test_tokens_that_do_not_spell_the_text_have_no_likelihood(
    texts: list[str], length: int, message: str
) -> None:
    with pytest.raises(NoLikelihood, match=message):
        by_texts(texts, PROMPT, length)


def test_of_a_prompt_of_ids_the_last_ones_count() -> None:
    assert (by_ids(["a", "b", "c", "x"], 3, 2).start, by_ids(["a", "b", "c"], 3, 2).end) == (1, 3)
    with pytest.raises(NoLikelihood, match="lists 2 tokens of a prompt of 3"):
        by_ids(["a", "b"], 3, 2)


def test_a_likelihood_needs_every_token_of_the_continuation() -> None:
    assert likelihood([-1.0, -0.5], [-1.0, -0.5]) == (-1.5, True)
    assert likelihood([-1.0, -0.5], [-1.0, -0.25]) == (-1.5, False)
    for logprobs, tops in (([], []), ([None], [-1.0]), ([-1.0], [None])):
        with pytest.raises(NoLikelihood):
            likelihood(logprobs, tops)


@pytest.mark.parametrize("choice", [{}, {"logprobs": None}, {"logprobs": {"content": []}}])
def test_an_endpoint_without_echo_is_recognised(choice: dict[str, object]) -> None:
    with pytest.raises(NoLikelihood, match="echo with logprobs"):
        read_token_list(choice)


@given(
    pieces=st.lists(st.text("ab 日", min_size=1, max_size=3), min_size=2, max_size=8),
    bos=st.sampled_from([[], ["<s>"], [" "]]),
    cut=st.integers(1, 7),
)
def test_whatever_the_pieces_their_texts_spell_the_continuation(
    pieces: list[str], bos: list[str], cut: int
) -> None:
    cut = min(cut, len(pieces) - 1)
    prompt, rest = "".join(pieces), "".join(pieces[cut:])
    continuation = by_texts([*bos, *pieces, "generated"], prompt, len(rest))
    span = (continuation.start, continuation.end, continuation.inside)
    assert span == (cut + len(bos), len(pieces) + len(bos), False)
