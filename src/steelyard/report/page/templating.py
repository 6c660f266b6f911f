"""The one Jinja environment of the pages and figures: everything is escaped, a missing value is an error."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steelyard.report.wording import bounds, count, percent, shown

_environment = Environment(
    loader=PackageLoader("steelyard.report.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)
_environment.filters.update(bounds=bounds, count=count, percent=percent, shown=shown)


def render(template: str, **values: Any) -> Markup:
    return Markup(_environment.get_template(template).render(**values))
