"""Comparison of runs with the first of them: the numbers as JSON, the sentences, and the page.

`steelyard eval compare` makes it from the runs' folders; nothing here reads a folder.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard_common.types import Json, shorten
from steelyard_evaluation.report.comparison.figures import difference_figure, two_by_two
from steelyard_evaluation.report.comparison.reports import (
    ChangedQuestions,
    Comparison,
    comparison_numbers,
)
from steelyard_evaluation.report.page.page import Evidence, render_page
from steelyard_evaluation.report.results import Figure, Table, Unit
from steelyard_evaluation.report.statistics.intervals import Scale
from steelyard_evaluation.report.statistics.power import difference
from steelyard_evaluation.report.wording import (
    SIGNIFICANCE,
    count,
    count_noun,
    difference_text,
    format_points,
    format_value,
    small_p,
)

KINDS = {
    "worse": ("worse", "the greatest losses first"),
    "better": ("better", "the greatest gains first"),
    "otherwise": ("as bad, with other answers", "by row"),
}


@dataclass(frozen=True)
class Side:
    """One run: its letter in this comparison, its folder, and the files that its numbers were made from."""

    letter: str
    name: str
    model: str
    evidence: tuple[Evidence, ...]
    differs: tuple[str, ...] = ()
    """Settings that differ from those of the first run."""

    @property
    def title(self) -> str:
        return f"{self.letter}: {self.name}"


@dataclass(frozen=True)
class RunComparison:
    """One run compared with the first."""

    side: Side
    comparison: Comparison
    p_holm: float | None
    """p value corrected for the number of runs that are compared."""


@dataclass(frozen=True)
class ComparedRuns:
    """All runs compared with the first, by one rubric."""

    rubric: str
    title: str
    unit: Unit
    first: Side
    others: tuple[RunComparison, ...]
    cluster: str | None = None
    """Column whose values are the clusters of questions."""
    scale: Scale | None = None
    """The least and the greatest score, where the rubric names them."""

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.first, *(run.side for run in self.others))

    def __str__(self) -> str:
        """The result for each run in a sentence, as `steelyard eval compare` prints it."""
        return "\n".join(f"{sentence(self, run)}: {chance_sentence(self, run)}." for run in self.others)


def find_changes(comparison: Comparison, kind: str) -> ChangedQuestions:
    return next(change for change in comparison.changes if change.kind == kind)


def sentence(compared: ComparedRuns, run: RunComparison) -> str:
    """Return the result for one run as a sentence of numbers."""
    comparison, first, unit, scale = run.comparison, compared.first, compared.unit, compared.scale
    value, points = comparison.difference.value or 0.0, " points" if unit == "share" else ""
    if value == 0:
        said = f"{run.side.letter} scores the same as {first.letter}"
    else:
        way = "more" if value > 0 else "less"
        size = format_points(abs(value), unit, scale).lstrip("+")
        said = f"{run.side.letter} scores {size}{points} {way} than {first.letter}"
    rows = (
        f"rows of {run.side.letter}: {comparison.system_rows}; of {first.letter}: {comparison.baseline_rows}"
    )
    scores = f"{format_value(comparison.system, unit, scale)} against {format_value(comparison.baseline, unit, scale)}"
    return f"{said} on the {common_questions(comparison)}, {scores} ({rows})"


def common_questions(comparison: Comparison) -> str:
    """Return `45 questions of both`: the scores are of these alone, not of all that a run was asked."""
    return f"{count_noun(comparison.questions, 'question')} of both"


def chance_sentence(compared: ComparedRuns, run: RunComparison) -> str:
    """Say whether the difference could be chance, by the corrected p value."""
    if run.p_holm is None:
        return f"whether this is chance is unknown ({run.comparison.p_value.method})"
    word = "chance alone would seldom do this" if run.p_holm < SIGNIFICANCE else "this could be chance"
    if run.comparison.difference.value == 0:
        word = "a small difference may still be there"
    p = "p" if len(compared.others) == 1 else "p (Holm)"
    return f"{word} ({p} {small_p(run.p_holm).replace('<', '< ')})"


def power_line(comparison: Comparison, unit: Unit, scale: Scale | None = None) -> str:
    """Return a sentence with the least difference that this comparison can detect."""
    verb = "differs" if comparison.differ == 1 else "differ"
    questions = f"{count_noun(comparison.questions, 'question')}, {count(comparison.differ)} of which {verb},"
    if comparison.detectable is None:
        return f"{questions} cannot detect any difference with 80 % power at a significance level of 5 %."
    least = difference(comparison.detectable, unit, scale)
    return f"{questions} can detect a difference of {least} (80 % power at a significance level of 5 %)."


def comparison_json(compared: ComparedRuns) -> Json:
    """Return the numbers of the page as JSON, with the indexes of all changed rows."""
    return {
        "schemaVersion": "0.1",
        "headline": make_headline(compared),
        "rubric": compared.rubric,
        "unit": compared.unit,
        "clusterBy": compared.cluster,
        "runs": [
            {
                "letter": side.letter,
                "name": side.name,
                "model": side.model,
                "differs": list(side.differs),
                "evidence": [dataclasses.asdict(item) for item in side.evidence],
            }
            for side in compared.sides
        ],
        "comparisons": [_numbers(compared, run) for run in compared.others],
    }


def _numbers(compared: ComparedRuns, run: RunComparison) -> Json:
    comparison = run.comparison
    numbers = comparison_numbers(comparison)
    numbers["changes"] = {
        changes.kind: {
            "total": changes.total,
            "indexes": list(changes.indexes),
            "shown": [dataclasses.asdict(change) for change in changes.shown],
        }
        for changes in comparison.changes
    }
    return {
        **numbers,
        "baseline": {"run": compared.first.letter, "score": comparison.baseline.value},
        "system": {"run": run.side.letter, "score": comparison.system.value},
        "difference": dataclasses.asdict(comparison.difference),
        "pHolm": run.p_holm,
        "questionsThatDiffer": comparison.differ,
        "clusters": comparison.clusters,
        "detectable": comparison.detectable,
    }


@dataclass(frozen=True)
class Section:
    """Part of the page about one run compared with the first."""

    letter: str
    title: str
    sentence: str
    interval: str
    chance: str
    differs: tuple[str, ...]
    figure: Figure | None
    two_by_two: Table | None
    changes: tuple[Table, ...]
    methods: tuple[tuple[str, str], ...]


def comparison_page(compared: ComparedRuns, texts: dict[int, str]) -> bytes:
    """Return the page as one file; `texts` are the questions of the rows that it shows."""
    sections = tuple(_section(compared, run, texts) for run in compared.others)
    drawable = [run for run in compared.others if run.comparison.difference.low is not None]
    several = compared.unit == "share" and len(drawable) > 1
    headline = make_headline(compared)
    return render_page(
        "comparison_runs",
        headline,
        comparison_json(compared),
        headline=headline,
        facts=_facts(compared),
        table=overview(compared),
        sections=sections,
        figure=_figure(drawable, " of each run") if several else None,
        limits=tuple(limits(compared)),
        evidence=[
            dataclasses.replace(item, what=f"{side.letter}: {item.what}")
            for side in compared.sides
            for item in side.evidence
        ],
    )


def make_headline(compared: ComparedRuns) -> str:
    if len(compared.others) == 1:
        only = compared.others[0]
        return f"{sentence(compared, only)}: {chance_sentence(compared, only)}."
    beyond = sum(run.p_holm is not None and run.p_holm < SIGNIFICANCE for run in compared.others)
    clause = "none differs" if beyond == 0 else f"{count(beyond)} {'differs' if beyond == 1 else 'differ'}"
    tested = len(compared.others) - sum(run.p_holm is None for run in compared.others)
    runs, first = f"{count(len(compared.others))} runs", compared.first.letter
    if not tested:
        return f"Whether {runs} differ from {first} by chance alone is unknown."
    without = "" if tested == len(compared.others) else f" ({count(tested)} of them could be tested)"
    return f"Of {runs}{without}, {clause} from {first} by more than chance explains."


def overview(compared: ComparedRuns) -> Table:
    """Return a table with a row for each run.

    The first run has one score if each other run is compared with it on the same questions; else its score on the
    questions of each pair stands in the row of the other run.
    """
    first, unit, scale = compared.first, compared.unit, compared.scale
    points = ", points" if unit == "share" else ""
    difference = f"Difference from {first.letter}{points} (95 % interval)"
    pairs = {(run.comparison.questions, run.comparison.baseline.value) for run in compared.others}
    own = len(pairs) > 1
    baseline = (f"{first.letter} on the same questions",) if own else ()
    questions = ("Questions",) if own else ()
    columns = (
        "Run",
        "Model",
        *questions,
        compared.title,
        *baseline,
        difference,
        "p",
        "p (Holm)",
        "Worse",
        "Better",
    )
    nothing = ["–"] * (len(columns) - 2)
    if not own:
        nothing[0] = format_value(compared.others[0].comparison.baseline, unit, scale)
    rows = [(first.title, first.model, *nothing)]
    for run in compared.others:
        comparison = run.comparison
        rows.append(
            (
                run.side.title,
                run.side.model,
                *((count(comparison.questions),) if own else ()),
                format_value(comparison.system, unit, scale),
                *((format_value(comparison.baseline, unit, scale),) if own else ()),
                difference_text(comparison.difference, unit, scale),
                small_p(comparison.p_value.p),
                small_p(run.p_holm),
                count(find_changes(comparison, "worse").total),
                count(find_changes(comparison, "better").total),
            )
        )
    return Table("The runs", columns, tuple(rows))


def limits(compared: ComparedRuns) -> Iterator[str]:
    """Yield the limits of the comparison."""
    for run in compared.others:
        yield f"{run.side.letter}: {power_line(run.comparison, compared.unit, compared.scale)}"
        if run.comparison.not_compared:
            one = run.comparison.not_compared == 1
            why = f"that only one run was asked, or has a grade of, {'is' if one else 'are'} not compared"
            yield f"{run.side.letter}: {count_noun(run.comparison.not_compared, 'question')} {why}."
    if len(compared.others) > 1:
        yield (
            f"p (Holm) is corrected for {len(compared.others)} comparisons; each interval stands for its own "
            "comparison alone."
        )
    if compared.cluster:
        yield f"Tests and intervals treat questions with the same {compared.cluster} as one cluster."
    yield "Every score is of the questions that both runs of a comparison share, not of all rows of a run."
    yield "The comparison covers chance in the choice of questions. It does not say why the runs differ."


def _facts(compared: ComparedRuns) -> tuple[tuple[str, str], ...]:
    questions = {run.comparison.questions for run in compared.others}
    question_counts = " to ".join(count(number) for number in sorted({min(questions), max(questions)}))
    return (
        *((f"Run {side.letter}", f"{side.name} ({side.model})") for side in compared.sides),
        ("Rubric", compared.rubric),
        ("Paired questions", question_counts),
    )


def _section(compared: ComparedRuns, run: RunComparison, texts: dict[int, str]) -> Section:
    comparison, unit, scale = run.comparison, compared.unit, compared.scale
    drawn = unit == "share" and comparison.difference.low is not None
    chance = chance_sentence(compared, run)
    return Section(
        letter=run.side.letter,
        title=f"{run.side.title}, against {compared.first.title}",
        sentence=sentence(compared, run),
        interval=f"difference {difference_text(comparison.difference, unit, scale)}, 95 % interval",
        chance=f"{chance[0].upper()}{chance[1:]}.",
        differs=run.side.differs,
        figure=_figure([run], f" in {run.side.letter}") if drawn else None,
        two_by_two=two_by_two(comparison, (f"in {run.side.letter}", f"in {compared.first.letter}"))
        if comparison.binary
        else None,
        changes=tuple(
            _changes_table(changes, (compared.first.letter, run.side.letter), texts)
            for changes in comparison.changes
            if changes.total
        ),
        methods=(
            ("Interval", comparison.difference.method),
            ("p", f"{small_p(comparison.p_value.p)}, {comparison.p_value.method}"),
            *(
                [("p (Holm)", f"{small_p(run.p_holm)}, corrected for {len(compared.others)} comparisons")]
                if len(compared.others) > 1
                else []
            ),
            ("Power", power_line(comparison, unit, scale)),
        ),
    )


def _figure(runs: Sequence[RunComparison], where: str) -> Figure:
    return difference_figure(
        [(_short_title(run.side), run.comparison) for run in runs], where, "the first run"
    )


def _short_title(side: Side) -> str:
    """Return as much of the title as fits next to a drawing."""
    name = side.name.rstrip("/").rpartition("/")[2]
    return f"{side.letter}: {shorten(name, 17)}"


def _changes_table(changes: ChangedQuestions, letters: tuple[str, str], texts: dict[int, str]) -> Table:
    word, order = KINDS[changes.kind]
    shown = len(changes.shown)
    bounded = f"; {shown} shown, {order}" if shown < changes.total else ""
    questions = "1 question" if changes.total == 1 else f"{count(changes.total)} questions"
    title = f"{letters[1]} {word}: {questions}{bounded}"
    rows = tuple(
        (str(change.index), texts.get(change.index, ""), change.label, change.before, change.now)
        for change in changes.shown
    )
    return Table(title, ("Row", "Question", "Should be", f"{letters[0]} said", f"{letters[1]} said"), rows)
