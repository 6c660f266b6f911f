"""The graph of a pipeline: which node needs which other one, and in which order they are created. Pure."""

from collections.abc import Collection, Mapping, Set
from graphlib import CycleError, TopologicalSorter

from steelyard.api.http.errors import Invalid
from steelyard.api.pipelines.placeholders import placeholders
from steelyard_schema.pipeline import PipelineFields, PipelineNode

_ID = ".id"


def node_names(nodes: Mapping[str, PipelineNode]) -> dict[str, str]:
    """Return the node of each placeholder that stands for a node's entity."""
    return {form: name for name in nodes for form in (name, f"{name}{_ID}")}


def order(pipeline: PipelineFields) -> tuple[str, ...]:
    """Return the names of the nodes, each after those that it needs. Raises Invalid, which names the node."""
    needs = _needs(pipeline)
    try:
        return tuple(TopologicalSorter(needs).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise Invalid(f"nodes: {cycle} wait for each other", field="nodes") from error


def with_dependents(pipeline: PipelineFields, steps: Collection[str]) -> frozenset[str]:
    """Return these nodes and all that need one of them. Raises Invalid for one that there is not, and for none."""
    if not steps:
        raise Invalid("steps: is empty; without `steps`, all steps run again", field="steps")
    for step in steps:
        if step not in pipeline.nodes:
            known = ", ".join(pipeline.nodes)
            raise Invalid(f"steps: {step!r} is not a node of the pipeline; there are {known}", field="steps")
    needs, again = _needs(pipeline), set(steps)
    for name in order(pipeline):
        if again & needs[name]:
            again.add(name)
    return frozenset(again)


def _needs(pipeline: PipelineFields) -> dict[str, set[str]]:
    """Return the nodes that each node needs. Raises Invalid."""
    keywords = {parameter.keyword for parameter in pipeline.parameters.values() if not parameter.destination}
    named = node_names(pipeline.nodes)
    if ambiguous := sorted(keywords & named.keys()):
        field = f"parameters.{ambiguous[0]}"
        raise Invalid(f"{field}: a node has this name, too: $({ambiguous[0]}) would mean both", field=field)
    return {name: _dependencies(node, named, keywords) for name, node in pipeline.nodes.items()}


def check_destinations(pipeline: PipelineFields) -> None:
    """Raise Invalid for a parameter whose destination is not a field of a node."""
    for keyword, parameter in pipeline.parameters.items():
        if parameter.destination is None:
            continue
        node, dot, _ = parameter.destination.partition(".")
        if node not in pipeline.nodes or not dot:
            field = f"parameters.{keyword}.destination"
            raise Invalid(
                f"{field}: {parameter.destination!r} should be node.field, with one of the nodes "
                f"{', '.join(pipeline.nodes)}",
                field=field,
            )


def _dependencies(node: PipelineNode, named: Mapping[str, str], keywords: Set[str]) -> set[str]:
    needed = set()
    for name in placeholders(node.request.dump()):
        if name in named:
            needed.add(named[name])
        elif name not in keywords:
            field = f"nodes.{node.name}.request"
            raise Invalid(
                f"{field}: $({name}) is neither a parameter nor a node of the pipeline", field=field
            )
    return needed
