"""Rows that our rubrics and the originals score alike: drawn from one seed, written as people and models write."""

import random
from typing import Any

Rows = dict[str, Any]
_WORDS = (
    "the a an cat Cat dog house runs quickly under river old New York it's don't 3.5 1,000 (and) -- state-of-the-art "
    "running runner's café naïve Zürich 北京 is in London, Paris. e.g. U.S. 50% $20 $x^2$ “quoted” OK ok"
)
WORDS = _WORDS.split()
CLASSES = ("cat", "dog", "bird", "fish")
TEXTS, LABELS, ANSWERS = 300, 400, 300


def _text(rng: random.Random, most: int = 14) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def _altered(rng: random.Random, text: str) -> str:
    """The text with some words dropped, exchanged, or written otherwise: what a system says that is partly right."""
    words = []
    for word in text.split():
        luck = rng.random()
        if luck < 0.7:
            words.append(word)
        elif luck < 0.8:
            words.append(rng.choice(WORDS))
        elif luck < 0.9:
            words.append(word.upper())
    return " ".join(words)


def _pair(rng: random.Random, number: int) -> Rows:
    references = [_text(rng)]
    said = _altered(rng, references[0]) if number % 20 else ""
    references += [_altered(rng, references[0]) or "x"] * (number % 3 == 0)
    return {"said": said, "targets": references}


def _classified(rng: random.Random) -> Rows:
    weights = [rng.random() ** 2 + 1e-3 for _ in CLASSES]
    shares = {name: weight / sum(weights) for name, weight in zip(CLASSES, weights, strict=True)}
    truth = rng.choices(CLASSES, weights=[0.55, 0.3, 0.14, 0.01])[0]
    said = max(shares, key=lambda name: shares[name] + (0.3 if name == truth else 0))
    return {"truth": truth, "said": said, "second": rng.choice([said, truth]), "probabilities": shares}


def _answered(rng: random.Random, number: int) -> Rows:
    """An answer to a short question, in one of the forms that models use."""
    target = rng.choice(
        ["Paris", "the Beatles", "42", "New York", "1,000", "3.5", "U.S.", "it's", "a", "red and blue"]
    )
    said = rng.choice(
        [
            target,
            target.upper(),
            f"{target}.",
            f"It is {target}, I think.",
            rng.choice(WORDS),
            f"**{target}**",
        ]
    )
    value = rng.choice([rng.randint(-999, 99_999), rng.randint(1, 999) / 8])
    other = value if rng.random() < 0.6 else value + 1
    form = rng.choice(
        ["{}", "{:,}", "The answer is {:,}.", "So ${:,}", "It is {} in all", "**{:,}**", "= {}"]
    )
    letter, right = rng.choice("ABCD"), rng.choice("ABCD")
    lettered = rng.choice(["ANSWER: {}", "Let me think.\n\nANSWER: {}", "Answer: {}", "ANSWER: {}\n"])
    return {
        "target": target,
        "said": said if number % 25 else "",
        "number": str(value),
        "numeric": form.format(other),
        "letter": right,
        "lettered": lettered.format(letter),
    }


def rows(seed: int = 0) -> Rows:
    """All rows, by kind."""
    rng = random.Random(seed)
    return {
        "texts": [_pair(rng, number) for number in range(TEXTS)],
        "labels": [_classified(rng) for _ in range(LABELS)],
        "answers": [_answered(rng, number) for number in range(ANSWERS)],
    }
