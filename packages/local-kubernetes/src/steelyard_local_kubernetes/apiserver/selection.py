"""Selection of objects for a list or a watch: label and field selectors over items, which are parsed only
where needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard_common.types import Json
from steelyard_kube.errors import ApiError
from steelyard_kube.label_selectors import Requirement, whole_number
from steelyard_kube.selectors import FieldTest, field_text, parse_fields, parse_labels
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.names import key_causes, value_causes

Selects = Callable[[Item], bool]
_NAMES = ("metadata.name", "metadata.namespace")
_METADATA = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
# What Go compares where nothing is stored.
_ABSENT = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}
_ABSENT |= {"status.replicas": "0"}


def everything(item: Item) -> bool:
    return True


@dataclass(frozen=True)
class _Field:
    """A test of a field whose absence means a value."""

    test: FieldTest

    def __call__(self, obj: Json) -> bool:
        text = field_text(obj, self.test.path.split(".")) or _ABSENT.get(self.test.path, "")
        return (text == self.test.value) is self.test.equal


def selection(kind: ResourceType, labels: str, fields: str, namespace: str | None = None) -> Selects:
    """The predicate of both selectors, and of the namespace where it is given."""
    try:
        label_tests, parsed = parse_labels(labels), parse_fields(fields)
    except ApiError as error:
        raise errors.bad_request(error.message) from error
    for requirement in label_tests:
        _check_requirement(requirement)
    for test in parsed:
        # As a real server: a selector by another field would be served here, and fail on a cluster.
        if test.path not in _NAMES and test.path not in kind.selectable:
            raise errors.bad_request(_not_supported_text(kind, test.path))
    # Most watches select nothing: they are spared a test of every change.
    if namespace is None and not label_tests and not parsed:
        return everything
    shallow = all(test.path in _NAMES for test in parsed)
    field_tests = [_Field(test) for test in parsed]

    def selects(item: Item) -> bool:
        if namespace is not None and item.namespace != namespace:
            return False
        if not all(test(item.labels) for test in label_tests):
            return False
        if not field_tests:
            return True
        obj: Json = (
            {"metadata": {"name": item.name, "namespace": item.namespace}} if shallow else item.parse()
        )
        return all(test(obj) for test in field_tests)

    return selects


def _check_requirement(requirement: Requirement) -> None:
    """Refuse what can be no label, in the words of Kubernetes' parser."""
    for cause in key_causes(requirement.key, "<nil>"):
        raise errors.bad_request(f"unable to parse requirement: <nil>: {cause.message}")
    for value in sorted(requirement.values):
        if requirement.operator in "<>" and whole_number(value) is None:
            text = errors.invalid("", value, "for 'Gt', 'Lt' operators, the value must be an integer").message
            raise errors.bad_request(f"unable to parse requirement: values[0]: {text}")
        for cause in value_causes(value, f"values[0][{requirement.key}]"):
            raise errors.bad_request(f"unable to parse requirement: {cause.field}: {cause.message}")


def _not_supported_text(kind: ResourceType, path: str) -> str:
    """Say that objects cannot be selected by a field; kinds that have other such fields have words of their own."""
    if kind.group == "batch" and kind.selectable:
        return f'field label "{path}" not supported for {kind.kind}'
    if kind.custom or (kind.selectable and not kind.group):
        return f"field label not supported: {path}"
    if kind.selectable:
        return f"field label not supported for {kind.api_version}, Kind={kind.kind}: {path}"
    return _METADATA.format(path)
