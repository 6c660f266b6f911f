"""Writes docs/answer-forms.md, and the section of docs/rubrics.md that sums it up: `python -m tests.answers.page`."""

import json
from collections import Counter
from collections.abc import Iterator

import yaml

from tests.answers.forms import FOLDER, KINDS, Form, Kind, Outcome, Reading, forms, originals, outcome

DOCS = FOLDER.parent.parent / "docs"
PAGE, RUBRICS = DOCS / "answer-forms.md", DOCS / "rubrics.md"
BEGIN, END = "<!-- written by tests/answers/page.py -->", "<!-- end -->"
OUTCOMES: tuple[Outcome, ...] = ("nothing", "other", "guess")
BEGIN_SCORES = "<!-- scores: written by tests/answers/page.py -->"
ORIGINALS = FOLDER.parent / "engines" / "originals"
TITLES = {
    "inspect_ai": "Inspect: match, includes, exact, f1, pattern, math, answer, choice",
    "rouge_score": "rouge-score: ROUGE-1, -2, -L",
    "sacrebleu": "sacrebleu: BLEU with five tokenizers, in both cases, chrF, chrF+, chrF++; of corpus and sentences",
    "scikit_learn": "scikit-learn: accuracy, confusion, precision, recall, F1, areas under curves, Brier score, kappa",
}
EXAMPLES = ("The answer is 1\u202f000.", "\\boxed{1{,}000}", "999 or 1,000")
VERDICTS = {True: "right", False: "wrong"}
CAPTIONS = {"nothing": "reads nothing", "other": "reads something else", "guess": "takes what is not clear"}
HEAD = """# Forms of answers

How models write numbers and choices, and what Steelyard and other tools make of each form. [Rubrics](rubrics.md) sums
the page up and says why the tools differ. *Right* says whether an answer of this form counts as right where the target
is the one shown: no, where it gives something else or can be read in two ways. In the columns of the tools, = is the
same verdict, – a right answer that counts as wrong since nothing was read, a text a right answer that was read as that
text, and **!** an answer that counts as right though it is not clear.

The page is written from `tests/answers/forms.yaml` and `originals.json` by `python -m tests.answers.page`; the tools'
columns are computed by the tools themselves (`make test-engines`, suite `originals`).
"""


def reasons() -> dict[str, dict[Outcome, str]]:
    """Why a tool differs, by column and outcome."""
    document: dict[str, dict[Outcome, str]] = yaml.safe_load(
        (FOLDER / "reasons.yaml").read_text(encoding="utf-8")
    )
    return document


def columns(kind: Kind) -> dict[str, dict[str, Reading]]:
    """The columns of one kind of forms; a tool that reads both kinds has two."""
    chosen = {form.key for form in forms() if form.kind == kind}
    columns_of_kind = {}
    for name, readings in originals().items():
        of_kind = {key: reading for key, reading in readings.items() if key in chosen}
        if of_kind:
            columns_of_kind[name if len(of_kind) == len(readings) else f"{name} ({kind})"] = of_kind
    return columns_of_kind


def code(text: str) -> str:
    """The text as Markdown's code in a table's cell; what cannot be seen is written as an escape."""
    shown = "".join(c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" for c in text).replace(
        "\n", "⏎"
    )
    fence = "``" if "`" in shown else "`"
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", "\\|") if shown else "(empty)"


def cell(form: Form, reading: Reading) -> str:
    match outcome(form, reading):
        case "same":
            return "="
        case "nothing":
            return "–"
        case "guess":
            return "**!**"
        case "other":
            return code(str(reading["read"])[:40])


def table(kind: Kind) -> Iterator[str]:
    tools = columns(kind)
    heads = ["answer", "target", "right", "Steelyard reads", *tools]
    yield f"## {kind.capitalize()}\n"
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    for form in forms():
        if form.kind == kind:
            read = form.scored()["prediction"]
            ours = "nothing" if read is None else code(read)
            theirs = [cell(form, readings[form.key]) for readings in tools.values()]
            start = [code(form.said), code(form.target), "yes" if form.right else "no", ours]
            yield f"| {' | '.join([*start, *theirs])} |"
    yield ""


def page() -> str:
    return "\n".join([HEAD, *(line for kind in KINDS for line in table(kind))])


def example() -> Iterator[str]:
    """A question whose right answer is 1,000, as three tools read answers to it."""
    tools = [originals()[name] for name in ("lm-eval gsm8k flexible-extract", "Math-Verify")]
    yield "| answer, where 1,000 is right | `numeric.Close` | lm-eval's `flexible-extract` | Math-Verify |"
    yield "|---|---|---|---|"
    for form in forms():
        if form.said in EXAMPLES and form.target == "1000":
            scored = form.scored()
            ours = f"{scored['prediction'] or scored['unread']}: {VERDICTS[scored['correct']]}"
            theirs = [
                f"{r['read'] or 'nothing'}: {VERDICTS[r['right']]}"
                for tool in tools
                for r in [tool[form.key]]
            ]
            yield f"| {' | '.join([code(form.said), ours, *theirs])} |"


def summary() -> str:
    """The counts of each tool, and the reason of each way in which it differs."""
    known = list(forms())
    numbers = sum(form.kind == "numbers" for form in known)
    lines = [
        *example(),
        "",
        f"{numbers} forms of numbers and {len(known) - numbers} of choices, as models write them, are in",
        "[a table](answer-forms.md), with what is right of each and what other tools make of it. Steelyard reads all",
        "as the table says is right, which a test checks; the forms are ours, so this shows differences, and does not",
        "rank tools. Many of the others were made for one form that a prompt asks for, and are right to read no other.",
        "",
        "| tool | same verdict | differs | for this reason |\n|---|---|---|---|",
    ]
    why, by_key = reasons(), {form.key: form for form in known}
    for kind in KINDS:
        for tool, readings in columns(kind).items():
            name = tool
            counts = Counter(outcome(by_key[key], reading) for key, reading in readings.items())
            same = f"{counts['same']} of {len(readings)}"
            for result in OUTCOMES:
                if counts[result]:
                    lines.append(
                        f"| {name} | {same} | {CAPTIONS[result]}: {counts[result]} | {why[tool][result]} |"
                    )
                    name, same = "", ""
    return "\n".join([BEGIN, *lines, END])


def beside() -> str:
    """The table of our scores and the originals', and why some differ."""
    known = json.loads((ORIGINALS / "scores.json").read_text(encoding="utf-8"))
    why = yaml.safe_load((ORIGINALS / "reasons.yaml").read_text(encoding="utf-8"))
    lines = [
        "Computed by the originals themselves on a thousand rows drawn from one seed, and by our rubrics",
        "(`make test-engines`, suite `originals`). Numbers are the same where they agree to nine digits.",
        "",
        "| original | numbers | the same | others |\n|---|---|---|---|",
    ]
    for tool, names in known.items():
        numbers = sum(row["numbers"] for row in names.values())
        same = numbers - sum(row["differ"] for row in names.values())
        others = [
            f"{name}: {row['differ']} of {row['numbers']}, by {row['largest']:.3g} at most. {why[tool][name]}"
            for name, row in names.items()
            if row["differ"]
        ]
        lines.append(f"| {TITLES[tool]} | {numbers:,} | {same:,} | {'<br>'.join(others)} |")
    return "\n".join([BEGIN_SCORES, *lines, END])


def with_summary(text: str) -> str:
    for begin, written in ((BEGIN, summary()), (BEGIN_SCORES, beside())):
        before, _, rest = text.partition(begin)
        text = before + written + rest.partition(END)[2]
    return text


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    RUBRICS.write_text(with_summary(RUBRICS.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
