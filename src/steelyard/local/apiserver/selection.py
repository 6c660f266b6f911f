"""Selection of objects for a list or a watch: label and field selectors over items, which are parsed only
where needed.
"""

from collections.abc import Callable

from steelyard.kube.errors import ApiError
from steelyard.kube.selectors import parse_fields, parse_labels
from steelyard.local.apiserver import errors
from steelyard.local.apiserver.item import Item
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.types import Json

Selects = Callable[[Item], bool]
_NAMES = ("metadata.name", "metadata.namespace")


def everything(item: Item) -> bool:
    return True


def selection(kind: ResourceType, labels: str, fields: str, namespace: str | None = None) -> Selects:
    """The predicate of both selectors, and of the namespace where it is given."""
    try:
        label_tests, field_tests = parse_labels(labels), parse_fields(fields)
    except ApiError as error:
        raise errors.bad_request(error.message) from error
    requirements = (
        [part.replace("!=", "=").partition("=")[0].strip() for part in fields.split(",")]
        if fields.strip()
        else []
    )
    for name in requirements:
        # As a real server: a selector by another field would be served here, and fail on a cluster.
        if name not in _NAMES and name not in kind.selectable:
            raise errors.bad_request(f"field label not supported: {name}")
    # Most watches select nothing: they are spared a test of every change.
    if namespace is None and not label_tests and not field_tests:
        return everything
    shallow = all(name in _NAMES for name in requirements)

    def selects(item: Item) -> bool:
        if namespace is not None and item.namespace != namespace:
            return False
        if not all(test(item.labels) for test in label_tests):
            return False
        if not field_tests:
            return True
        obj: Json = (
            {"metadata": {"name": item.name, "namespace": item.namespace}} if shallow else item.parsed()
        )
        return all(test(obj) for test in field_tests)

    return selects
