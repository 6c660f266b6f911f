"""Templates of others: their work is bounded in time and memory, and usual ones stay quick."""

import resource
from contextlib import suppress
from datetime import datetime
from decimal import Decimal

import pytest
from jinja2 import TemplateError

from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from steelyard_evaluation.runs.prompts import confined
from steelyard_evaluation.runs.prompts.compiled import ENVIRONMENT, CompiledTemplate
from steelyard_evaluation.runs.prompts.template import Template, TemplateFault

ROW: Json = {
    "question": "  Why? ",
    "choices": ["a", "b"],
    "n": 3,
    "big": "x" * 1_000_000,
    "rows": list(range(1000)),
}
DOUBLED = "{% set a = [big, big] %}" + "{% set a = [a, a] %}" * 30
MULTIPLYING: dict[str, str] = {
    "a product": "{{ 'a' * 10**9 }}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "a list": "{{ [0] * 10**9 }}",
    "a list of texts": "{{ ([big] * 100000) | join }}",
    "loops": "{% for a in rows %}{% for b in rows %}{% for c in rows %}{% endfor %}{% endfor %}{% endfor %}",
    "ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop that prints a column": "{% for a in rows %}{{ big }}{% endfor %}",
    "a width": "{{ question | center(10**9) }}",
    "a width of a method": "{{ question.ljust(10**9) }}",
    "an indentation": "{{ question | indent(10**9, true) }}",
    "a format": "{{ '%1000000000d' | format(n) }}",
    "a format by a method": "{{ '{:1000000000}'.format(n) }}",
    "a format of a format": "{{ '{:{}}'.format(n, 10**9) }}",
    "JSON": "{{ choices | tojson(indent=10**9) }}",
    "a replacement": "{{ big | replace('x', big) }}",
    "a separator": "{{ big | join(big) }}",
    "a macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a loop into itself": "{% for a in rows recursive %}{{ loop(rows) }}{% endfor %}",
    "lists that double": DOUBLED + "{{ a }}",
    "lists that double as JSON": DOUBLED + "{{ a | tojson }}",
    "blocks that double": "{% set a %}{{ big }}{% endset %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 30,
    "texts that double": "{% set ns = namespace(a=big) %}{% for i in rows %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
    "a batch": "{{ rows | batch(10**9, 1) | list }}",
    "words": "{{ lipsum(n=10**6) }}",
    "a slice": "{{ rows | slice(10**9) | list }}",
    "brackets": "{{ " + "(" * 50_000 + ")" * 50_000 + " }}",
    "a sum of lists": "{{ rows | map('list') | sum(start=[0] * 10**9) }}",
}


@pytest.mark.parametrize("attack", MULTIPLYING)
def test_no_template_multiplies(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "SECONDS", 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((TemplateFault, UsageError), match="template, line"):
        print(len(Template(MULTIPLYING[attack])(ROW)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize(
    "text",
    [
        "{{ question }}",
        "{{ question | trim }} {{ choices | join(', ') }}",
        "{% for choice in choices %}{{ loop.index }}. {{ choice }}\n{% endfor %}Answer:",
        "{% if n > 2 and question is defined %}{{ question.strip().upper() }}{% else %}-{% endif %}",
        "{{ choices[0] ~ ': ' ~ question }}{{ choices | tojson }}",
        "{{ missing | default('none') }}",
    ],
)
def test_usual_templates_run_in_this_process(text: str) -> None:
    template = Template(text)
    assert isinstance(template._render, CompiledTemplate)
    assert template(ROW)


def test_a_template_apart_gives_what_it_would_here() -> None:
    text = "{% set letters = 'ABCD' %}{% for c in choices %}{{ letters[loop.index0] }}. {{ c }} {% endfor %}{{ n * 2 }}"
    template = Template(text)
    assert not isinstance(template._render, CompiledTemplate)
    assert [template(ROW) for _ in range(3)] == ["A. a B. b 6"] * 3


def test_a_template_apart_names_its_faults_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    template = Template("a\n{{ n * 2 }}\n{{ 'é' * big_number }}", "task.yaml", 5)
    with pytest.raises(TemplateFault, match=r"task.yaml, line 7: 'big_number' is undefined; the row has n"):
        template({"n": 1})
    with pytest.raises(TemplateFault, match=r"task.yaml, line 7: MemoryError|more memory"):
        template({"n": 1, "big_number": 10**9})
    assert template({"n": 1, "big_number": 2}) == "a\n2\néé"
    slow = Template("{% for a in range(n) %}{% for b in range(n) %}{% endfor %}{% endfor %}ok", "t")
    monkeypatch.setattr(confined, "SECONDS", 0.5)
    with pytest.raises(TemplateFault, match=r"t, line 1: the template needs more than 0.5 s for one row"):
        slow({"n": 99_999})
    monkeypatch.undo()
    assert slow({"n": 2}) == "ok"


def test_what_is_no_template_is_named_wherever_it_would_run() -> None:
    for text in ("{{ a | nofilter }}", "{{ (a * 2) | nofilter }}", "{{ a * }}"):
        with pytest.raises(UsageError, match="template, line 1: "):
            Template(text)


VALUES: Json = {
    "t": True,
    "n": None,
    "i": 3,
    "f": 1.0,
    "d": {"a": None, "é": ["<x>", 2.5]},
    "l": ["a", None, True],
    "s": "x<y",
    "when": datetime(2024, 5, 1, 12, 30),  # noqa: DTZ001
    "price": Decimal("1.50"),
    "b": b"ab",
}
D = '{"a": null, "é": ["<x>", 2.5]}'
PRINTED: dict[str, str] = {
    "{{ t }} {{ n }} {{ i }} {{ f }} {{ not t }}": "true null 3 1.0 false",
    "{{ d }} {{ l }} {{ s }}": f'{D} ["a", null, true] x<y',
    "{{ when }} {{ price }} {{ [when, price] }}": '2024-05-01T12:30:00 1.50 ["2024-05-01T12:30:00", "1.50"]',
    "{{ d.keys() }} {{ d.values() }} {{ d.items() | list }}": (
        '["a", "é"] [null, ["<x>", 2.5]] [["a", null], ["é", ["<x>", 2.5]]]'
    ),
    "{{ (1, none) }} {{ range(2) }} {{ 10 ** 30 }}": f"[1, null] [0, 1] {10**30}",
    "{{ 'x' ~ t ~ n ~ d }}{{ true ~ none }}": f"xtruenull{D}truenull",
    "{{ l | join(', ') }} {{ [d] | join('-', attribute='a') }}": "a, null, true null",
    "{{ t | upper }} {{ n | trim }} {{ d | string }} {{ s | replace('x', t) }}": f"TRUE null {D} true<y",
    "{{ l | map('string') | list }}": '["a", "null", "true"]',
    "{{ '%s %d %.1f %s' % (t, i, f, d) }} {{ '%s' % n }} {{ '%(a)s' % d }}": f"true 3 1.0 {D} null null",
    "{{ '%s-%s' | format(t, n) }} {{ '%(a)s %(b).1f %(c)s' | format(a=t, b=f, c=d) }}": f"true-null true 1.0 {D}",
    "{{ s | replace(old='x', new=t) }} {{ s | replace('x', n, count=1) }}": "true<y null<y",
    "{{ {'a': t, 'n': n, 'd': [t], 's': s} | xmlattr }}": ' a="true" d="[true]" s="x&lt;y"',
    "{{ {'a': t, 'n': n} | urlencode }} {{ [(t, 's')] | urlencode }} {{ n | urlencode }} {{ 'a b' | urlencode }}": (
        "a=true&n=null true=s null a%20b"
    ),
    "{{ 'one two three' | truncate(7, f > 1) }} {{ 'one two three' | truncate(7, true, '', n) }}": (
        "one... one two"
    ),
    "{{ 'null is' | trim(none) }} {{ 'abcd' | wordwrap(2, false) }}": "null is abcd",
    "{{ '{} {:.1f} {x[a]}'.format(t, f, x=d) }} {{ '{a}'.format_map(d) }}": "true 1.0 null null",
    "{{ d | tojson }} {{ s | tojson }}": f'{D} "x<y"',
    "{{ [t] | tojson(indent=1) }}{{ [n] | pprint }}": "[\n true\n][\n  null\n]",
    "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(t) }}{% set q %}{{ n }}{% endset %}{{ q ~ f }}": "<true>null1.0",
    "{{ 'yes' if n is none and t == true else 'no' }}{% if d %}{{ d.a }}{% endif %}": "yesnull",
}
WITHOUT_TEXT: dict[str, str] = {
    "{{ b }}": "bytes have no text: make a column of texts",
    "{{ [b] }}": "bytes have no text",
    "{{ 'x' ~ b }}": "bytes have no text",
    "{{ '%s' % b }}": "bytes have no text",
    "{{ '{}'.format(b) }}": "bytes have no text",
    "{{ '%(b)s' | format(b=b) }}": "bytes have no text",
    "{{ {'b': b} | urlencode }}": "bytes have no text",
    "{{ b | urlencode }}": "bytes have no text",
    "{{ {'b': b} | xmlattr }}": "bytes have no text",
    "{{ missing | urlencode }}": "'missing' is undefined",
    "{{ s.upper }}": r"a function has no text: call it with \(\)",
    "{% macro m() %}{% endmacro %}{{ m }}": "a macro has no text: call it",
    "{{ l | map('string') }}": r"a generator has no text: add \| list",
    "{{ missing }}": "'missing' is undefined",
    "{{ missing ~ s }}": "'missing' is undefined",
    "{{ [missing] | join }}": "'missing' is undefined",
}


@pytest.mark.parametrize("text", PRINTED)
def test_a_value_is_printed_as_a_file_in_json_has_it(text: str) -> None:
    assert CompiledTemplate(text, "template", 1)(VALUES) == PRINTED[text]


@pytest.mark.parametrize("text", WITHOUT_TEXT)
def test_what_has_no_text_is_a_fault(text: str) -> None:
    with pytest.raises(TemplateFault, match=f"template, line 1: {WITHOUT_TEXT[text]}"):
        CompiledTemplate(text, "template", 1)(VALUES)


def test_every_filter_of_jinja_that_makes_a_text_prints_its_value_so() -> None:
    """Filters that need an argument or an object are in the tables above, or print what they are given."""
    for name in ENVIRONMENT.filters:
        with suppress(AttributeError, TypeError, ValueError, TemplateError):
            text = ENVIRONMENT.from_string(f"{{{{ v | {name} }}}}").render(v=True)
            assert "True" not in text or name in {"title", "capitalize"}, name
