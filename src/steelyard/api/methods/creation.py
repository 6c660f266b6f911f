"""Methods from their create requests."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.schema.entities import AnyEntity
from steelyard.schema.method import Method
from steelyard.schema.module import Module
from steelyard.schema.requests import MethodCreateRequest

_IMPLEMENTATIONS = {
    "JupyterNotebook": "jupyterNotebook",
    "PythonFunction": "pythonFunction",
    "PythonRubric": "pythonRubric",
}
_OUTPUTS = {"Measurement": "measurement", "SafetyCase": "safetyCase"}


async def method(
    context: RequestContext, request: MethodCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the method, which is ready at once."""
    kind = request.implementation.kind
    if kind not in _IMPLEMENTATIONS:
        raise Invalid(
            f"implementation.kind: {kind!r} is none of {', '.join(_IMPLEMENTATIONS)}",
            field="implementation.kind",
        )
    _check_set(
        request.implementation, _IMPLEMENTATIONS[kind], f"implementation.kind is {kind}", "implementation"
    )
    output = request.output.kind
    _check_set(request.output, _OUTPUTS[output], f"output.kind is {output}", "output")
    for name in ("inputs", "parameters"):
        _check_distinct([item.keyword for item in getattr(request, name)], name)
    _check_distinct([score.name for score in request.scores], "scores")
    content = request.dump()
    if request.modules:
        named = [(module, f"modules.{number}") for number, module in enumerate(request.modules)]
        content["modules"] = [(await resolve(context, Module, module, field)).id for module, field in named]
    if kind == "JupyterNotebook" and (notebook := request.implementation.jupyterNotebook) is not None:
        field = "implementation.jupyterNotebook.notebookModule"
        module = await resolve(context, Module, notebook.notebookModule, field)
        content["implementation"]["jupyterNotebook"]["notebookModule"] = module.id
    return [new.entity(Method, content, "Ready")]


def _check_set(part: object, name: str, why: str, field: str) -> None:
    if getattr(part, name) is None:
        raise Invalid(f"{field}.{name}: is missing: {why}", field=f"{field}.{name}")


def _check_distinct(names: Sequence[str], field: str) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise Invalid(f"{field}.{number}: {name!r} is there twice", field=f"{field}.{number}")
        seen.add(name)
