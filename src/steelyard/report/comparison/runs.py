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
    """What was asked otherwise than in the first run."""

    @property
    def title(self) -> str:
        return f"{self.letter}: {self.name}"


@dataclass(frozen=True)
class Against:
    """One run against the first."""

    side: Side
    found: Comparison
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
        return (self.first, *(each.side for each in self.others))


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


def changed(found: Comparison, kind: str) -> Changes:
    return next(each for each in found.changes if each.kind == kind)


def sentence(each: Against, first: Side, unit: Unit) -> str:
    """What follows for one run, in a sentence of numbers."""
    found, points = each.found, " points" if unit == "share" else ""
    value = found.difference.value or 0.0
    if value == 0:
        said = f"{each.side.letter} scores the same as {first.letter}"
    else:
        way = "more" if value > 0 else "less"
        size = f"{100 * abs(value):.1f}" if unit == "share" else f"{abs(value):.3f}"
        said = f"{each.side.letter} scores {size}{points} {way} than {first.letter}"
    rows = f"{each.side.letter}: {found.system_rows}; {first.letter}: {found.baseline_rows}"
    return f"{said}, {level(found.system, unit)} against {level(found.baseline, unit)} ({rows})"


def verdict(each: Against) -> str:
    """Whether it could be chance, by the corrected p value."""
    word = "chance alone would seldom do this" if each.p_holm < 0.05 else "this could be chance"
    return f"{word} (p {small_p(each.p_holm).replace('<', '< ')})"


def power_line(found: Comparison, unit: Unit) -> str:
    """The least difference that this comparison could have seen."""
    questions = f"{count(found.questions)} questions, {count(found.differ)} of which differ,"
    if found.detectable is None:
        return f"{questions} are too few to see any difference with 80 % power at 5 %."
    least = difference(found.detectable, unit)
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
        "comparisons": [_numbers(compared, each) for each in compared.others],
    }


def _numbers(compared: Compared, each: Against) -> Json:
    found = each.found
    told = comparison_numbers(found)
    told["changes"] = {
        changes.kind: {
            "total": changes.total,
            "indexes": list(changes.indexes),
            "shown": [dataclasses.asdict(change) for change in changes.shown],
        }
        for changes in found.changes
    }
    return {
        **told,
        "baseline": {"run": compared.first.letter, "score": found.baseline.value},
        "system": {"run": each.side.letter, "score": found.system.value},
        "difference": dataclasses.asdict(found.difference),
        "pHolm": each.p_holm,
        "questionsThatDiffer": found.differ,
        "clusters": found.clusters,
        "detectable": found.detectable,
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
    sections = tuple(_section(compared, each, texts) for each in compared.others)
    drawable = [each for each in compared.others if each.found.difference.low is not None]
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
        each = compared.others[0]
        return f"{sentence(each, compared.first, compared.unit)}: {verdict(each)}."
    beyond = sum(each.p_holm < 0.05 for each in compared.others)
    told = "none differs" if beyond == 0 else f"{count(beyond)} {'differs' if beyond == 1 else 'differ'}"
    return f"Of {count(len(compared.others))} runs, {told} from {compared.first.letter} by more than chance explains."


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
    start = compared.others[0].found.baseline
    rows = [
        (compared.first.title, compared.first.model, level(start, compared.unit), "–", "–", "–", "–", "–")
    ]
    for each in compared.others:
        found = each.found
        rows.append(
            (
                each.side.title,
                each.side.model,
                level(found.system, compared.unit),
                gap(found.difference, compared.unit),
                small_p(found.chance.p),
                small_p(each.p_holm),
                count(changed(found, "worse").total),
                count(changed(found, "better").total),
            )
        )
    return Table("The runs", columns, tuple(rows))


def limits(compared: Compared) -> Iterator[str]:
    """What the comparison does not say."""
    for each in compared.others:
        yield f"{each.side.letter}: {power_line(each.found, compared.unit)}"
        if each.found.left_out:
            questions = (
                "1 question" if each.found.left_out == 1 else f"{count(each.found.left_out)} questions"
            )
            why = "that not both runs were asked, or have a grade of, are not compared"
            yield f"{each.side.letter}: {questions} {why}."
    if len(compared.others) > 1:
        yield (
            f"p (Holm) is corrected for {len(compared.others)} comparisons; each interval stands for its own "
            "comparison alone."
        )
    if compared.cluster:
        yield f"Questions with the same {compared.cluster} count as one in every test and interval."
    yield "The comparison covers chance in the choice of questions. It does not say why the runs differ."


def _facts(compared: Compared) -> tuple[tuple[str, str], ...]:
    questions = {each.found.questions for each in compared.others}
    asked = " to ".join(count(each) for each in sorted({min(questions), max(questions)}))
    return (
        *((f"Run {side.letter}", f"{side.name} ({side.model})") for side in compared.sides),
        ("Rubric", compared.rubric),
        ("Paired questions", asked),
    )


def _section(compared: Compared, each: Against, texts: dict[int, str]) -> Section:
    found, unit = each.found, compared.unit
    drawn = unit == "share" and found.difference.low is not None
    return Section(
        letter=each.side.letter,
        title=f"{each.side.title}, against {compared.first.title}",
        sentence=sentence(each, compared.first, unit),
        interval=f"difference {gap(found.difference, unit)}, 95 % interval",
        verdict=f"{verdict(each)[0].upper()}{verdict(each)[1:]}.",
        differs=each.side.differs,
        figure=_figure([each], f" in {each.side.letter}") if drawn else None,
        four_ways=four_ways(found, (f"in {each.side.letter}", f"in {compared.first.letter}"))
        if found.binary
        else None,
        changes=tuple(
            _changed_rows(changes, (compared.first.letter, each.side.letter), texts)
            for changes in found.changes
            if changes.total
        ),
        methods=(
            ("Interval", found.difference.method),
            ("p value", f"{found.chance.p:.4g}, {found.chance.method}"),
            ("Corrected", f"{each.p_holm:.4g}, Holm (1979), {len(compared.others)} comparisons"),
            ("Power", power_line(found, unit)),
        ),
    )


def _figure(each: Sequence[Against], where: str) -> Figure:
    return differences([(_label(one.side), one.found) for one in each], where, "the first run")


def _label(side: Side) -> str:
    """As much of the title as stands beside a drawing."""
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
