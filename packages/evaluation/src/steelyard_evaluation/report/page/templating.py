"""The one Jinja environment of the pages and figures: everything is escaped, a missing value is an error."""

from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from steelyard_evaluation.report.wording import bounds, count, format_value, percent

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(template).render(**values))


@cache
def _environment() -> "Environment":
    """Return the environment, made with the first page: who reads a report's numbers needs no Jinja."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("steelyard_evaluation.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(bounds=bounds, count=count, format_value=format_value, percent=percent)
    return environment
