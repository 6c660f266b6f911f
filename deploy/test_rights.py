"""Rights, as a Role has them."""

from deploy.rights import allow
from steelyard_kube.resource import JOBS, PODS, SERVICES


def test_there_is_one_rule_for_each_group() -> None:
    assert [right.rule() for right in allow("get list", SERVICES, PODS, JOBS)] == [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
    ]


def test_a_rule_may_be_for_a_subresource_and_for_named_objects() -> None:
    [right] = allow("patch", PODS, subresource="status", names=["a"])
    assert right.rule() == {
        "apiGroups": [""],
        "resources": ["pods/status"],
        "verbs": ["patch"],
        "resourceNames": ["a"],
    }
