"""Runs beside the first of them: the numbers as JSON, the sentences, and the page.

`steelyard eval compare` makes it from the runs' folders; nothing here knows where a run lies.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.report.comparison.figures import differences, four_ways
from steelyard.report.comparison.reports import Change, Changes, Comparison, comparison_numbers
from steelyard.report.page.page import Evidence, page_of
from steelyard.report.results import Figure, Table, Unit
from steelyard.report.statistics.intervals import Estimate
from steelyard.report.statistics.power import difference
from steelyard.report.wording import count, percent, signed_points, small_p
from steelyard.types import Json

KINDS = {
    "worse": ("worse", "the greatest losses first"),
    "better": ("better", "the greatest gains first"),
    "otherwise": ("as bad, with other answers", "by row"),
}


@dataclass(frozen=True)
class Side:
    """One run: its letter in this comparison, its folder, and what its numbers were made from."""

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
class Against:
    """One run against the first."""

    side: Side
    comparison: Comparison
    p_holm: float
    """Corrected for the number of runs that are compared."""


@dataclass(frozen=True)
class Compared:
    """All runs against the first, by one rubric."""

    rubric: str
    title: str
    unit: Unit
    first: Side
    others: tuple[Against, ...]
    cluster: str | None = None
    """The column whose values say which questions hang together."""

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.first, *(contender.side for contender in self.others))


def level(estimate: Estimate, unit: Unit) -> str:
    """`71.0 %`, or `0.712`."""
    value = estimate.value or 0.0
    return percent(value) if unit == "share" else f"{value:.3f}"


def gap(estimate: Estimate, unit: Unit) -> str:
    """`+2.4 (+0.3 to +4.5)`."""
    seen = signed_points(estimate.value or 0.0, unit)
    if estimate.low is None or estimate.high is None:
        return f"{seen} (no interval)"
    return f"{seen} ({signed_points(estimate.low, unit)} to {signed_points(estimate.high, unit)})"


def changed(comparison: Comparison, kind: str) -> Changes:
    return next(change for change in comparison.changes if change.kind == kind)


def sentence(contender: Against, first: Side, unit: Unit) -> str:
    """Return the result for one run as a sentence of numbers."""
    comparison, points = contender.comparison, " points" if unit == "share" else ""
    value = comparison.difference.value or 0.0
    if value == 0:
        said = f"{contender.side.letter} scores the same as {first.letter}"
    else:
        way = "more" if value > 0 else "less"
        size = f"{100 * abs(value):.1f}" if unit == "share" else f"{abs(value):.3f}"
        said = f"{contender.side.letter} scores {size}{points} {way} than {first.letter}"
    rows = f"{contender.side.letter}: {comparison.system_rows}; {first.letter}: {comparison.baseline_rows}"
    return f"{said}, {level(comparison.system, unit)} against {level(comparison.baseline, unit)} ({rows})"


def verdict(contender: Against) -> str:
    """Say whether the difference could be chance, by the corrected p value."""
    word = "chance alone would seldom do this" if contender.p_holm < 0.05 else "this could be chance"
    return f"{word} (p {small_p(contender.p_holm).replace('<', '< ')})"


def power_line(comparison: Comparison, unit: Unit) -> str:
    """The least difference that this comparison could have seen."""
    questions = f"{count(comparison.questions)} questions, {count(comparison.differ)} of which differ,"
    if comparison.detectable is None:
        return f"{questions} are too few to see any difference with 80 % power at 5 %."
    least = difference(comparison.detectable, unit)
    return f"{questions} can see a difference of {least} (80 % power at 5 %)."


def compared_numbers(compared: Compared) -> Json:
    """All that the page says, for machines; of changed rows every index."""
    return {
        "schemaVersion": "0.1",
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
        "comparisons": [_numbers(compared, contender) for contender in compared.others],
    }


def _numbers(compared: Compared, contender: Against) -> Json:
    comparison = contender.comparison
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
        "system": {"run": contender.side.letter, "score": comparison.system.value},
        "difference": dataclasses.asdict(comparison.difference),
        "pHolm": contender.p_holm,
        "questionsThatDiffer": comparison.differ,
        "clusters": comparison.clusters,
        "detectable": comparison.detectable,
    }


@dataclass(frozen=True)
class Section:
    """One run against the first, on the page."""

    letter: str
    title: str
    sentence: str
    interval: str
    verdict: str
    differs: tuple[str, ...]
    figure: Figure | None
    four_ways: Table | None
    changes: tuple[Table, ...]
    methods: tuple[tuple[str, str], ...]


def compared_page(compared: Compared, texts: dict[int, str]) -> bytes:
    """The page, whole in one file; `texts` are the questions of the rows that it shows."""
    sections = tuple(_section(compared, contender, texts) for contender in compared.others)
    drawable = [contender for contender in compared.others if contender.comparison.difference.low is not None]
    several = compared.unit == "share" and len(drawable) > 1
    headline = headline_of(compared)
    return page_of(
        "comparison_runs",
        headline,
        compared_numbers(compared),
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


def headline_of(compared: Compared) -> str:
    if len(compared.others) == 1:
        only = compared.others[0]
        return f"{sentence(only, compared.first, compared.unit)}: {verdict(only)}."
    beyond = sum(contender.p_holm < 0.05 for contender in compared.others)
    clause = "none differs" if beyond == 0 else f"{count(beyond)} {'differs' if beyond == 1 else 'differ'}"
    return f"Of {count(len(compared.others))} runs, {clause} from {compared.first.letter} by more than chance explains."


def overview(compared: Compared) -> Table:
    """A row for each run."""
    points = ", points" if compared.unit == "share" else ""
    columns = (
        "Run",
        "Model",
        compared.title,
        f"Difference from {compared.first.letter}{points} (95 % interval)",
        "p",
        "p (Holm)",
        "Worse",
        "Better",
    )
    start = compared.others[0].comparison.baseline
    rows = [
        (compared.first.title, compared.first.model, level(start, compared.unit), "–", "–", "–", "–", "–")
    ]
    for contender in compared.others:
        comparison = contender.comparison
        rows.append(
            (
                contender.side.title,
                contender.side.model,
                level(comparison.system, compared.unit),
                gap(comparison.difference, compared.unit),
                small_p(comparison.chance.p),
                small_p(contender.p_holm),
                count(changed(comparison, "worse").total),
                count(changed(comparison, "better").total),
            )
        )
    return Table("The runs", columns, tuple(rows))


def limits(compared: Compared) -> Iterator[str]:
    """Yield the limits of the comparison."""
    for contender in compared.others:
        yield f"{contender.side.letter}: {power_line(contender.comparison, compared.unit)}"
        if contender.comparison.left_out:
            questions = (
                "1 question"
                if contender.comparison.left_out == 1
                else f"{count(contender.comparison.left_out)} questions"
            )
            why = "that not both runs were asked, or have a grade of, are not compared"
            yield f"{contender.side.letter}: {questions} {why}."
    if len(compared.others) > 1:
        yield (
            f"p (Holm) is corrected for {len(compared.others)} comparisons; each interval stands for its own "
            "comparison alone."
        )
    if compared.cluster:
        yield f"Questions with the same {compared.cluster} count as one in every test and interval."
    yield "The comparison covers chance in the choice of questions. It does not say why the runs differ."


def _facts(compared: Compared) -> tuple[tuple[str, str], ...]:
    questions = {contender.comparison.questions for contender in compared.others}
    question_counts = " to ".join(count(number) for number in sorted({min(questions), max(questions)}))
    return (
        *((f"Run {side.letter}", f"{side.name} ({side.model})") for side in compared.sides),
        ("Rubric", compared.rubric),
        ("Paired questions", question_counts),
    )


def _section(compared: Compared, contender: Against, texts: dict[int, str]) -> Section:
    comparison, unit = contender.comparison, compared.unit
    drawn = unit == "share" and comparison.difference.low is not None
    return Section(
        letter=contender.side.letter,
        title=f"{contender.side.title}, against {compared.first.title}",
        sentence=sentence(contender, compared.first, unit),
        interval=f"difference {gap(comparison.difference, unit)}, 95 % interval",
        verdict=f"{verdict(contender)[0].upper()}{verdict(contender)[1:]}.",
        differs=contender.side.differs,
        figure=_figure([contender], f" in {contender.side.letter}") if drawn else None,
        four_ways=four_ways(comparison, (f"in {contender.side.letter}", f"in {compared.first.letter}"))
        if comparison.binary
        else None,
        changes=tuple(
            _changed_rows(changes, (compared.first.letter, contender.side.letter), texts)
            for changes in comparison.changes
            if changes.total
        ),
        methods=(
            ("Interval", comparison.difference.method),
            ("p value", f"{comparison.chance.p:.4g}, {comparison.chance.method}"),
            ("Corrected", f"{contender.p_holm:.4g}, Holm (1979), {len(compared.others)} comparisons"),
            ("Power", power_line(comparison, unit)),
        ),
    )


def _figure(contenders: Sequence[Against], where: str) -> Figure:
    return differences([(_label(one.side), one.comparison) for one in contenders], where, "the first run")


def _label(side: Side) -> str:
    """Return as much of the title as fits beside a drawing."""
    name = side.name.rstrip("/").rpartition("/")[2]
    return f"{side.letter}: {name if len(name) <= 17 else name[:16] + '…'}"


def _changed_rows(changes: Changes, letters: tuple[str, str], texts: dict[int, str]) -> Table:
    word, order = KINDS[changes.kind]
    shown = len(changes.shown)
    bounded = f"; {shown} shown, {order}" if shown < changes.total else ""
    questions = "1 question" if changes.total == 1 else f"{count(changes.total)} questions"
    title = f"{letters[1]} {word}: {questions}{bounded}"
    rows = tuple(_row(change, texts) for change in changes.shown)
    return Table(title, ("Row", "Question", "Should be", f"{letters[0]} said", f"{letters[1]} said"), rows)


def _row(change: Change, texts: dict[int, str]) -> tuple[str, ...]:
    return str(change.index), texts.get(change.index, ""), change.label, change.before, change.now
