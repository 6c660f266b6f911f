"""Methods from their create requests."""

import re
from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.entities import AnyEntity
from steelyard_schema.method import Method, MethodImplementation
from steelyard_schema.module import Module
from steelyard_schema.requests import MethodCreateRequest

_IMPLEMENTATIONS = {
    "JupyterNotebook": "jupyterNotebook",
    "PythonFunction": "pythonFunction",
    "PythonRubric": "pythonRubric",
}
_QUALIFIED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_MOST_NAMED = 10
"""Maximum files that a message names."""
_OUTPUTS = {"Measurement": "measurement", "SafetyCase": "safetyCase"}


async def method(
    context: RequestContext, request: MethodCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the method, which is ready at once."""
    kind = request.implementation.kind
    if kind not in _IMPLEMENTATIONS:
        raise Invalid(
            f"implementation.kind: {kind!r} is not one of {', '.join(_IMPLEMENTATIONS)}",
            field="implementation.kind",
        )
    _check_set(
        request.implementation, _IMPLEMENTATIONS[kind], f"implementation.kind is {kind}", "implementation"
    )
    output = request.output.kind
    _check_set(request.output, _OUTPUTS[output], f"output.kind is {output}", "output")
    for name in ("inputs", "parameters"):
        _check_distinct([item.keyword for item in getattr(request, name)], name)
    _check_apart(request)
    _check_name(request.implementation)
    _check_distinct([score.name for score in request.scores], "scores")
    if new.references and request.analysisImage is None:
        field = "secrets.imagePull"
        raise Invalid(f"{field}: there is no analysisImage, whose registry it would open", field=field)
    content = request.dump()
    if request.analysisImage is None and (image := context.api.platform.settings.analysis_image):
        place, _, digest = image.partition("@")
        host, _, path = place.partition("/")
        content["analysisImage"] = {"host": host, "name": path, "digest": digest}
    if request.modules:
        named = [(module, f"modules.{number}") for number, module in enumerate(request.modules)]
        content["modules"] = [(await resolve(context, Module, module, field)).id for module, field in named]
    if kind == "JupyterNotebook" and (notebook := request.implementation.jupyterNotebook) is not None:
        field = "implementation.jupyterNotebook.notebookModule"
        module = await resolve(context, Module, notebook.notebookModule, field)
        _check_notebook(module, notebook.notebookPath)
        content["implementation"]["jupyterNotebook"]["notebookModule"] = module.id
    return [new.entity(Method, content, "Ready")]


def _check_set(part: object, name: str, why: str, field: str) -> None:
    if getattr(part, name) is None:
        raise Invalid(f"{field}.{name}: is missing: {why}", field=f"{field}.{name}")


def _check_apart(request: MethodCreateRequest) -> None:
    """Raise Invalid for a keyword of a parameter and an input: the program gets both by their keywords."""
    inputs = {item.keyword for item in request.inputs}
    for number, parameter in enumerate(request.parameters):
        if parameter.keyword in inputs:
            field = f"parameters.{number}.keyword"
            raise Invalid(f"{field}: {parameter.keyword!r} is also the keyword of an input", field=field)


def _check_name(implementation: MethodImplementation) -> None:
    """Raise Invalid for a function whose name has no module: it could never be found. Rubrics may have such names."""
    function = implementation.pythonFunction
    if implementation.kind != "PythonFunction" or function is None:
        return
    name, field = function.fullyQualifiedName, "implementation.pythonFunction.fullyQualifiedName"
    if not _QUALIFIED.fullmatch(name):
        raise Invalid(
            f"{field}: should be a name with its module, such as package.module.name, and is {name[:80]!r}",
            field=field,
        )


def _check_notebook(module: Module, path: str) -> None:
    paths = [artifact.path for artifact in module.artifacts]
    if path not in paths:
        field = "implementation.jupyterNotebook.notebookPath"
        known = ", ".join(sorted(path for path in paths if path.endswith(".ipynb"))[:_MOST_NAMED])
        there_are = f"its notebooks are {known}" if known else "it has no notebook"
        raise Invalid(f"{field}: Module {module.id} has no file {path[:80]!r}; {there_are}", field=field)


def _check_distinct(names: Sequence[str], field: str) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise Invalid(f"{field}.{number}: {name!r} is there twice", field=f"{field}.{number}")
        seen.add(name)
