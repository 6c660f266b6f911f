"""The view's tables in SQLite: one per kind, with a column for each filter and each time. Pure; `view.py` fills them.

Filters and orders lie in `fields.py`, and the tables are made of them. A change of them there needs a migration here,
with the columns' values taken from the JSON.
"""

from steelyard.views.fields import CHANGED, CREATED, OWN, Entity, labels, orders, sort_key

Value = str | int | None

# A filter whose column is another one's, because both read the same field.
_COLUMNS = {"report": "rubric"}


def column(name: str) -> str:
    """The column that a filter or an order reads."""
    return _COLUMNS.get(name, name)


def columns(kind: str) -> tuple[str, ...]:
    """A kind's columns, after its number and before its position and its JSON; the id comes first."""
    return _NAMES[kind]


_NAMES = {kind: tuple(dict.fromkeys(column(name) for name in orders(kind))) for kind in OWN}


def row(entity: Entity, kind: str) -> tuple[Value, ...]:
    """An entity's values of `columns(kind)`; times are whole microseconds."""
    return tuple(sort_key(entity, kind, name) for name in columns(kind))


def label_rows(entity: Entity, kind: str, id: str) -> dict[str, tuple[str, Value, str]]:
    """Key -> (value, creationTime, id): what the labels' index needs to find entities in order of creation."""
    created = sort_key(entity, kind, CREATED)
    return {key: (text, created, id) for key, text in labels(entity).items()}


def index(kind: str, *names: str) -> str:
    return f"{kind}_by_{'_'.join(names)}"


def _table(kind: str) -> str:
    names = columns(kind)
    types = {CREATED: "INTEGER", CHANGED: "INTEGER", "id": "TEXT NOT NULL"}
    lines = [f"{name} {types.get(name, 'TEXT')}" for name in names]
    filtered = [name for name in names if name not in ("id", CREATED, CHANGED)]
    script = [
        f"CREATE TABLE {kind} (number INTEGER PRIMARY KEY, {', '.join(lines)}, resync INTEGER NOT NULL,"
        f" epoch INTEGER NOT NULL, position INTEGER NOT NULL, json TEXT NOT NULL)",
        f"CREATE UNIQUE INDEX {index(kind, 'id')} ON {kind} (id)",
        f"CREATE INDEX {index(kind, CREATED)} ON {kind} ({CREATED}, id)",
        f"CREATE INDEX {index(kind, CHANGED)} ON {kind} ({CHANGED}, id)",
        *(f"CREATE INDEX {index(kind, name)} ON {kind} ({name}, {CREATED}, id)" for name in filtered),
        f"CREATE INDEX {index(kind, 'account', 'status')} ON {kind} (account, status, {CREATED}, id)",
        f"CREATE TABLE {kind}_labels (entity INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
        f" {CREATED} INTEGER, id TEXT NOT NULL, PRIMARY KEY (entity, key)) WITHOUT ROWID",
        f"CREATE INDEX {kind}_labels_by_value ON {kind}_labels (key, value, {CREATED}, id)",
    ]
    return "".join(f"{statement};\n" for statement in script)


# `forgotten` keeps a doubled or delayed record from reviving what is gone; a resync ends such rows. `state` has one
# row: the log's id and epoch, how many resyncs there were, and up to which of them was swept.
_COMMON = """
CREATE TABLE forgotten (id TEXT PRIMARY KEY, resync INTEGER NOT NULL, epoch INTEGER NOT NULL,
  position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (partition INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE state (epoch INTEGER NOT NULL, resync INTEGER NOT NULL, swept INTEGER NOT NULL);
INSERT INTO state VALUES (-1, 0, 0);
"""

_FIRST = (
    *("Dataset", "Module", "Model", "AuditProcedure", "InferenceService", "InferenceSession", "Evaluation"),
    *("Report", "Audit"),
)
"""The kinds that there were when the tables were first made."""

_LATER = ("Quota",)
"""Kinds that came after the third migration; each has one of its own."""

MIGRATIONS = (
    _COMMON + "".join(_table(kind) for kind in _FIRST),
    "ALTER TABLE state ADD COLUMN log TEXT NOT NULL DEFAULT '';",
    "".join(_table(kind) for kind in OWN if kind not in (*_FIRST, *_LATER)),
    _table("Quota"),
)
