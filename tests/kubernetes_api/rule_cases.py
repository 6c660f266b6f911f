# ruff: noqa: E501 - tables are read by their rows
"""Rules in CEL, as tables: schemas with rules, values that pass, values that do not, and the messages."""

from typing import Any

from steelyard_common.types import Json

WHOLE = {"type": "integer"}
TEXT = {"type": "string", "maxLength": 20}
TEXTS = {"type": "array", "maxItems": 5, "items": TEXT}


def ruled(schema: Json, *rules: str | Json) -> Json:
    """A schema with rules; a text is a rule without more."""
    whole = [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]
    return {**schema, "x-kubernetes-validations": whole}


def fields(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def items(properties: Json, *rules: str | Json) -> Json:
    """A list map by `k`."""
    item = ruled({"type": "object", "required": ["k"], "properties": {"k": TEXT, **properties}}, *rules)
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    return {"type": "array", "maxItems": 5, "items": item, **keys}


# Of each: the schema of spec, a spec that passes, one that does not, and what is said where.
BEFORE_2020 = ruled({"type": "string", "format": "date-time"}, "self < timestamp('2020-01-01T00:00:00Z')")
SHORT = ruled({"type": "string", "format": "duration"}, "self <= duration('1h')")
MIXED = {"x-kubernetes-int-or-string": True}
MAP = {"type": "object", "maxProperties": 5, "additionalProperties": WHOLE}
CASES: list[tuple[str, Json, Json, Json, str, str]] = [
    ("two fields", ruled(fields(a=WHOLE, b=WHOLE), "self.a < self.b"), {"a": 1, "b": 2}, {"a": 2, "b": 2},
     "spec", 'Invalid value: "object": failed rule: self.a < self.b'),
    ("an absent field", ruled(fields(a=WHOLE), "self.a > 0"), {"a": 1}, {},
     "spec", 'Invalid value: "object": no such key: a evaluating rule: self.a > 0'),
    ("an absent field with a message", ruled(fields(a=WHOLE), {"rule": "self.a > 0", "message": "a is missing"}), {"a": 1}, {},
     "spec", 'Invalid value: "object": no such key: a evaluating rule: a is missing'),
    ("has", ruled(fields(a=WHOLE, b=WHOLE), "has(self.a) != has(self.b)"), {"a": 1}, {"a": 1, "b": 1},
     "spec", "failed rule"),
    ("a text", fields(a=ruled(TEXT, "self.startsWith('x') && self.matches('^[a-z]+$')")), {"a": "xy"}, {"a": "x1"},
     "spec.a", 'Invalid value: "string": failed rule'),
    ("a message", fields(a=ruled(WHOLE, {"rule": "self > 1", "message": " more! "})), {"a": 2}, {"a": 1},
     "spec.a", 'Invalid value: "integer": more!'),
    ("a message made", ruled(fields(a=TEXT), {"rule": "self.a != 'x'", "messageExpression": "self.a + ' it is'"}), {"a": "y"}, {"a": "x"},
     "spec", 'Invalid value: "object": x it is'),
    ("a message that cannot be made", ruled(fields(a=TEXT, b=TEXT), {"rule": "self.a != 'x'", "messageExpression": "self.b", "message": "m"}), {"a": "y"}, {"a": "x"},
     "spec", 'Invalid value: "object": m'),
    ("a field and a reason", ruled(fields(a=WHOLE), {"rule": "self.a > 1", "message": "m", "fieldPath": ".a", "reason": "FieldValueForbidden"}), {"a": 2}, {"a": 1},
     "spec.a", "Forbidden: m"),
    ("a reason", ruled(fields(a=WHOLE), {"rule": "self.a > 1", "message": "m", "reason": "FieldValueRequired"}), {"a": 2}, {"a": 1},
     "spec", "Required value: m"),
    ("a duplicate", ruled(fields(a=WHOLE), {"rule": "self.a > 1", "message": "m", "reason": "FieldValueDuplicate"}), {"a": 2}, {"a": 1},
     "spec", 'Duplicate value: "object"'),
    ("a field of a map", ruled(fields(m=MAP), {"rule": "!('x' in self.m)", "message": "m", "fieldPath": ".m['x']"}), {"m": {"a": 1}}, {"m": {"x": 1}},
     "spec.m[x]", "m"),
    ("all items", fields(l=ruled(TEXTS, "self.all(x, x.size() > 1)")), {"l": ["aa"]}, {"l": ["aa", "a"]},
     "spec.l", 'Invalid value: "array"'),
    ("exactly one", fields(l=ruled(TEXTS, "self.exists_one(x, x == 'main')")), {"l": ["main", "b"]}, {"l": ["b"]},
     "spec.l", "failed rule"),
    ("the items of a list", fields(l=items({"v": WHOLE}, "self.v > 0")), {"l": [{"k": "a", "v": 1}]}, {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 0}]},
     "spec.l[1]", "failed rule: self.v > 0"),
    ("items by others", ruled(fields(l=items({"after": TEXT})), "!has(self.l) || self.l.all(x, !has(x.after) || self.l.exists(y, y.k == x.after))"), {"l": [{"k": "a"}, {"k": "b", "after": "a"}]}, {"l": [{"k": "a", "after": "z"}]},
     "spec", "failed rule"),
    ("the keys of a map", fields(m=ruled(MAP, "self.all(key, key != 'x' && self[key] > 0)")), {"m": {"a": 1}}, {"m": {"a": 0}},
     "spec.m", "failed rule"),
    ("the values of a map", fields(m={**MAP, "additionalProperties": ruled(WHOLE, "self > 0")}), {"m": {"a": 1}}, {"m": {"a": 0}},
     "spec.m[a]", 'Invalid value: "integer"'),
    ("a map's sum", fields(m=ruled(MAP, "self.map(k, self[k]).sum() == 3")), {"m": {"a": 1, "b": 2}}, {"m": {"a": 1}},
     "spec.m", "failed rule"),
    ("characters, not bytes", fields(a=ruled(TEXT, "size(self) <= 3 && self.size() <= 3")), {"a": "äöü"}, {"a": "abcd"},
     "spec.a", "failed rule"),
    ("texts' functions", fields(a=ruled(TEXT, "self.lowerAscii() == self && self.split('-').size() == 2 && self.indexOf('-') == 1")), {"a": "a-b"}, {"a": "A-b"},
     "spec.a", "failed rule"),
    ("parts of a text", fields(a=ruled(TEXT, "self.find('[0-9]+') == '12' && self.replace('a', '') == '12'")), {"a": "a12"}, {"a": "a13"},
     "spec.a", "failed rule"),
    ("lists' functions", fields(l=ruled(TEXTS, "self.isSorted() && self.indexOf('b') == 1")), {"l": ["a", "b"]}, {"l": ["b", "a"]},
     "spec.l", "failed rule"),
    ("sets", fields(l=ruled(TEXTS, "sets.contains(['a', 'b'], self)")), {"l": ["b"]}, {"l": ["c"]},
     "spec.l", "failed rule"),
    ("a number", ruled(fields(f={"type": "number"}), "self.f > 1 && self.f < 2.5 && double(self.f) * 2.0 >= 4.0"), {"f": 2}, {"f": 1},
     "spec", "failed rule"),
    ("a moment", fields(t=BEFORE_2020), {"t": "2019-01-01T00:00:00Z"}, {"t": "2021-01-01T00:00:00Z"},
     "spec.t", "failed rule"),
    ("a span", fields(d=SHORT), {"d": "30m5s"}, {"d": "1h1s"},
     "spec.d", "failed rule"),
    ("a number or text", fields(p=ruled(MIXED, "type(self) == int ? self > 1 : string(self).endsWith('%')")), {"p": "5%"}, {"p": "5"},
     "spec.p", "failed rule"),
    ("null is absent", ruled(fields(a={**WHOLE, "nullable": True}), "!has(self.a) || self.a > 1"), {"a": None}, {"a": 1},
     "spec", "failed rule"),
    ("free objects are there", ruled(fields(f={"type": "object", "x-kubernetes-preserve-unknown-fields": True}), "has(self.f)"), {"f": {"any": 1}}, {},
     "spec", "failed rule"),
    ("names that CEL cannot read", ruled(fields(**{"for": WHOLE, "a-b": WHOLE, "x__y": WHOLE}), "self.__for__ + self.a__dash__b + self.x__underscores__y == 3"), {"for": 1, "a-b": 1, "x__y": 1}, {"for": 2, "a-b": 1, "x__y": 1},
     "spec", "failed rule"),
    ("a size in a text is a word", fields(a=ruled(TEXT, "self != 'size(x)' && size('size(x)') == 7")), {"a": "b"}, {"a": "size(x)"},
     "spec.a", "failed rule"),
]  # fmt: skip

# Of each: the schema of spec, what is there, a spec that may follow, one that may not, and where that is said.
GROWS = {"rule": "self >= oldSelf", "message": "it only grows"}
STARTS = {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1", "optionalOldSelf": True}
SET = {**TEXTS, "x-kubernetes-list-type": "set"}
CHANGES: list[tuple[str, Json, Json, Json, Json, str]] = [
    ("a number", fields(a=ruled(WHOLE, GROWS)), {"a": 1}, {"a": 2}, {"a": 0}, "spec.a"),
    ("two fields", ruled(fields(a=WHOLE, b=WHOLE), "self.a == oldSelf.a"), {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}, "spec"),
    ("a field not there before", ruled(fields(a=WHOLE, b=ruled(WHOLE, "self == oldSelf"))), {"a": 1}, {"b": 2}, {"b": 3}, "spec.b"),
    ("with or without a past", fields(a=ruled(WHOLE, STARTS)), {"a": 1}, {"a": 3}, {"a": 2}, "spec.a"),
    ("items by their keys", fields(l=items({"v": ruled(WHOLE, GROWS)})), {"l": [{"k": "a", "v": 3}, {"k": "b", "v": 1}]},
     {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 3}, {"k": "c", "v": 0}]}, {"l": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]}, "spec.l[1].v"),
    ("values by their keys", fields(m={**MAP, "additionalProperties": ruled(WHOLE, GROWS)}), {"m": {"a": 2}}, {"m": {"a": 2, "b": 0}}, {"m": {"a": 1}}, "spec.m[a]"),
    ("sets have no order", fields(s=ruled(SET, "self == oldSelf")), {"s": ["a", "b"]}, {"s": ["b", "a"]}, {"s": ["a", "c"]}, "spec.s"),
    ("lists have one", fields(s=ruled(TEXTS, "self == oldSelf")), {"s": ["a", "b"]}, {"s": ["a", "b"]}, {"s": ["b", "a"]}, "spec.s"),
]  # fmt: skip

LIST: Json = {"type": "array", "maxItems": 5, "items": WHOLE}
REFUSED: list[tuple[str, Json, str, str]] = [
    ("not CEL", ruled(fields(a=WHOLE), "self.a =="), "rule", "compilation failed"),
    ("nothing", ruled(fields(a=WHOLE), ""), "rule", "rule is not specified"),
    ("an unknown field", ruled(fields(a=WHOLE), "self.nope > 1"), "rule", "undefined field 'nope'"),
    ("an unknown field further down", ruled(fields(a=fields(b=WHOLE)), "has(self.a.nope)"), "rule", "undefined field 'nope'"),
    ("an unknown field of an item", ruled(fields(l=items({})), "self.l.all(x, x.nope == 1)"), "rule", "nope"),
    ("a field of a free object", ruled(fields(f={"type": "object", "x-kubernetes-preserve-unknown-fields": True}), "has(self.f.x)"), "rule", "undefined field 'x'"),
    ("an unknown function", ruled(fields(a=WHOLE), "self.a.nope()"), "rule", "undeclared reference to 'nope'"),
    ("an unknown variable", ruled(fields(a=WHOLE), "slef.a == 1"), "rule", "undeclared reference to 'slef'"),
    ("an unknown variable that is never reached", ruled(fields(a=WHOLE), "self.a < 5 || slef.a == 1"), "rule", "undeclared reference to 'slef'"),
    ("not a truth", ruled(fields(a=WHOLE), "self.a"), "rule", "must evaluate to a bool"),
    ("types that do not go together", ruled(fields(a=WHOLE), "self.a + 'x' == 'x'"), "rule", "compilation failed"),
    ("a message that is no text", ruled(fields(a=WHOLE), {"rule": "self.a == 1", "messageExpression": "self.a"}), "messageExpression", "must evaluate to a string"),
    ("a reason that is none", ruled(fields(a=WHOLE), {"rule": "self.a == 1", "reason": "Nope"}), "reason", 'Unsupported value: "Nope"'),
    ("a field that is none", ruled(fields(a=WHOLE), {"rule": "self.a == 1", "fieldPath": ".nope"}), "fieldPath", "must be a valid path"),
    ("a message of two lines", ruled(fields(a=WHOLE), {"rule": "self.a == 1", "message": "a\nb"}), "message", "must not contain line breaks"),
    ("a long rule without a message", ruled(fields(a=WHOLE), "self.a == 1\n|| self.a == 2"), "message", "message must be specified if rule contains line breaks"),
]  # fmt: skip
