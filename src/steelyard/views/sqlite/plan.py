"""Plans of queries on the view's tables. Pure: `reading.py` counts, chooses and runs.

A query is a union of conjunctions. Each is led by one index, chosen by how few entities its condition leaves; the
other conditions are looked up in the rows that it yields. `INDEXED BY` holds SQLite to the choice: its own guesses
know nothing of how the values are spread.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.views.fields import CREATED, LABEL
from steelyard.views.matching import Key, after_key
from steelyard.views.sqlite.tables import column, index
from steelyard.views.view import Query

Conjunction = Mapping[str, frozenset[str]]
"""Column or `labels.KEY` -> values; one of them has to be there."""

Parameter = str | int | None
Lead = tuple[str, ...]
"""The columns of the index that leads; () is the order's own."""


@dataclass(frozen=True)
class Statement:
    """SQL and its parameters."""

    sql: str
    parameters: tuple[Parameter, ...]


# ---- what has to hold


def conjunctions(query: Query) -> list[Conjunction]:
    """The query's conditions as alternatives; those that nothing can meet are left out."""
    base = _and(
        _columns(query.filters), {LABEL + key: frozenset([text]) for key, text in query.labels.items()}
    )
    conditions = [
        _and(base, _and(_columns(filters), scope))
        for filters in query.any_of or [{}]
        for scope in _scopes(query)
    ]
    # Conditions may come to the same: searched twice, the same entities would be sorted and merged twice.
    unique = {frozenset(parts.items()): parts for parts in conditions}
    return [parts for parts in unique.values() if all(parts.values())]


def _columns(condition: Mapping[str, Sequence[str]]) -> Conjunction:
    together: Conjunction = {}
    for name, values in condition.items():
        together = _and(together, {column(name): frozenset(values)})
    return together


def _and(one: Conjunction, other: Conjunction) -> Conjunction:
    both = {name: one[name] & other[name] for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _scopes(query: Query) -> list[Conjunction]:
    if query.scope.everything:
        return [{}]
    return [{"account": query.scope.accounts}, {"id": query.scope.entities}]


# ---- which index leads


@dataclass(frozen=True)
class Bounds:
    """Limits up to which entities are counted before an index is chosen."""

    small: int = 1000
    """Number of entities that are simply read and sorted."""
    many: int = 10_000
    """More are not counted: it would take longer than a page does."""


BOUNDS = Bounds()

_RARE_FIRST = (
    "pipelineRun", "team", "task", "challenge", "pipeline", "auditProcedure", "evaluation", "name", "dataset",
    "inferenceService", "inferenceServiceName", "model", "modelName", "method", "methodName", "rubric", "outputKind",
    "principal", "resource", "reason", "account", "status", "flavor",
)  # fmt: skip


def by_rarity(name: str) -> int:
    """Return how rare a value of this column usually is, for want of a count."""
    return 0 if name.startswith(LABEL) else 1 + _RARE_FIRST.index(name)


def count(kind: str, name: str, values: frozenset[str], limit: int) -> Statement:
    """Return a statement that counts entities with one of the values, up to `limit`; from the index alone."""
    if name.startswith(LABEL):
        source, key = (
            f"{kind}_labels INDEXED BY {kind}_labels_by_value WHERE key = ? AND value",
            [name[len(LABEL) :]],
        )
    else:
        source, key = f"{kind} INDEXED BY {index(kind, name)} WHERE {name}", []
    among = _among(values)
    return Statement(f"SELECT count(*) FROM (SELECT 1 FROM {source} {among} LIMIT ?)", (*key, *values, limit))


def _among(values: frozenset[str]) -> str:
    """A mark for each value: `json_each` would be one for all, and cuts a text at U+0000."""
    return "= ?" if len(values) == 1 else f"IN ({', '.join('?' * len(values))})"


# ---- the statements


@dataclass(frozen=True)
class Search:
    """One conjunction, led by one index. Its rows are (sort key, id, number), in order."""

    query: Query
    conjunction: Conjunction
    lead: Lead

    def statements(self) -> list[Statement]:
        """Entities that have the field of the order, then those that have not; each up to the limit."""
        after = after_key(self.query)
        name = column(self.query.order_by or CREATED)
        searches = []
        if after is None or after[0] is not None:
            searches.append(self._statement(name, present=True, after=after))
        if name != "id":
            beyond = after if after is not None and after[0] is None else None
            searches.append(self._statement(name, present=False, after=beyond))
        return searches

    def _statement(self, name: str, *, present: bool, after: tuple[Key, str] | None) -> Statement:
        source, prefix, parts = self._source(name)
        than, way = ("<", "DESC") if self.query.order == "descending" else (">", "ASC")
        key, id = f"{prefix}.{name}", f"{prefix}.id"
        parts.append((f"{key} IS {'NOT ' if present else ''}NULL", ()))
        if after is not None and present:
            parts.append((f"({key}, {id}) {than} (?, ?)", after))
        elif after is not None:
            parts.append((f"{id} {than} ?", after[1:]))
        parts += self._remaining_conditions()
        order = f"{key} {way}, {id} {way}" if present else f"{id} {way}"
        limit = -1 if self.query.limit is None else self.query.limit
        return Statement(
            f"SELECT {key}, {id}, e.number FROM {source} WHERE {' AND '.join(part for part, _ in parts)}"
            f" ORDER BY {order} LIMIT ?",
            (*(value for _, values in parts for value in values), limit),
        )

    def _source(self, order: str) -> tuple[str, str, list[tuple[str, tuple[Parameter, ...]]]]:
        """The tables, the one that has the order's columns, and the conditions that the index answers."""
        kind = self.query.kind
        if self.lead and self.lead[0].startswith(LABEL):
            values = self.conjunction[self.lead[0]]
            condition = f"l.key = ? AND l.value {_among(values)}", (self.lead[0].removeprefix(LABEL), *values)
            # CROSS JOIN keeps SQLite from changing the order of the two tables.
            source = f"{kind}_labels l INDEXED BY {kind}_labels_by_value CROSS JOIN {kind} e ON e.number = l.entity"
            # The labels' table holds both, so that its index alone gives the order.
            return source, "l" if order in (CREATED, "id") else "e", [condition]
        parts: list[tuple[str, tuple[Parameter, ...]]] = []
        for name in self.lead:
            values = self.conjunction[name]
            parts.append((f"e.{name} {_among(values)}", tuple(values)))
        return f"{kind} e INDEXED BY {index(kind, *(self.lead or (order,)))}", "e", parts

    def _remaining_conditions(self) -> Iterable[tuple[str, tuple[Parameter, ...]]]:
        """Conditions that are looked up in each row; the plus keeps SQLite from leading with them."""
        for name, values in self.conjunction.items():
            if name in self.lead:
                continue
            among = _among(values)
            if name.startswith(LABEL):
                has = f"o.entity = e.number AND o.key = ? AND o.value {among}"
                yield (
                    f"EXISTS (SELECT 1 FROM {self.query.kind}_labels o WHERE {has})",
                    (name[len(LABEL) :], *values),
                )
            else:
                yield f"+e.{name} {among}", tuple(values)
