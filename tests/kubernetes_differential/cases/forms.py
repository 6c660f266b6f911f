# ruff: noqa: E501 - a table is read by its rows
"""Forms of answers: YAML, and what the items of lists say of their kind."""

from tests.kubernetes_differential.case import TABLE, Case, Until, delete, get, merge, post
from tests.kubernetes_differential.samples import CORE, CRDS, MAPS, WIDGETS, config_map, definition, widget

YAML = "application/yaml"
TEXTS = {"word": "abc", "truth": "true", "yes": "yes", "letter": "y", "number": "1", "float": "1.5", "hex": "0x1f", "power": "1e3", "null": "null", "tilde": "~", "empty": "", "lines": "a\nb\n", "cut": "a\nb", "date": "2026-01-01",
         "colon": "a: b", "dash": "- a", "space": " a", "hash": "a #b", "at": "@a", "quote": "it's", "double": 'say "a"', "umlaut": "\u00fc", "star": "*a", "brace": "{a}", "tab": "a\tb", "percent": "%a", "question": "? a", "long": "word " * 40 + "end"}  # fmt: skip
ITEMS = (
    "kind",
    "apiVersion",
    *(f"items.{index}.{name}" for index in (0, 1) for name in ("kind", "apiVersion", "metadata.name")),
)
TYPED = ("serviceaccounts", "configmaps")

CASES = [
    *[Case(f"forms: YAML of {name}", post(f"{MAPS}?fieldManager=m", config_map("a", {"x": text}), accept=YAML, compare=("x",)), get(f"{MAPS}/a", accept=f"{YAML},application/json", compare=())) for name, text in TEXTS.items()],
    Case("forms: YAML of answers", post(MAPS, config_map("A_", {}), accept=YAML), get("/apis/batch", accept=YAML), get(f"{MAPS}?watch=1&timeoutSeconds=1", accept=YAML), get("/foo", accept=YAML), delete(f"{MAPS}/absent", accept=YAML), get(f"{MAPS}/a", accept=f"application/json,{YAML}")),
    Case("forms: media types that are not served", post(MAPS, config_map("a")), *[get(f"{MAPS}/a", accept=accept) for accept in ("application/cbor", "text/html", "application/xml;q=0.9", "application/json;as=Table;v=v9;g=meta.k8s.io", "application/cbor,application/json", "*/*", "application/*")]),
    Case("forms: items of typed lists", *[Until(f"{CORE}/{plural}", {"items.0.metadata.namespace": "{{ns}}"}, compare=ITEMS) for plural in TYPED], post(MAPS, config_map("a")), get(MAPS, compare=ITEMS), get(f"{MAPS}?limit=1", compare=ITEMS), delete(f"{MAPS}?fieldSelector=metadata.name=a", compare=ITEMS),
         get(MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", compare=ITEMS), get(MAPS, accept=TABLE, compare=("kind", "rows.0.object.kind"))),
    Case("forms: items of custom lists", post(CRDS, definition(), compare=("kind",)), Until(WIDGETS, compare=("kind",)), post(WIDGETS, widget("w")), get(WIDGETS, compare=ITEMS), merge(f"{WIDGETS}/w", {"spec": {"a": 1}}, compare=("kind",)), delete(WIDGETS, compare=ITEMS)),
]  # fmt: skip
