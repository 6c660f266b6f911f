"""Settings of all Pods: every Pod of a step and of a session has them, and a wrong one is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.operator.jobs import Step, job_and_config
from steelyard.operator.names import COMPONENT
from steelyard.operator.pod_settings import PodSettings, SpotSettings, Toleration
from steelyard.operator.pods import limit_cpu
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import make_report, make_session
from steelyard_common.types import Json

SPOT = SpotSettings(
    node_selector={"cloud.example.com/spot": "true"},
    tolerations=(Toleration(key="cloud.example.com/spot", operator="Exists", effect="NoSchedule"),),
)
PODS = PodSettings(
    pull_secrets=("registry",),
    node_selector={"pool": "steelyard"},
    tolerations=(Toleration(key="team", value="ml", effect="NoExecute", toleration_seconds=60),),
    priority_class="low",
    runtime_class="gvisor",
    cpu_limit="2",
    labels={"team": "ml", COMPONENT: "mine"},
    annotations={"example.com/cost": "42"},
    spot=SPOT,
)
SETTINGS = OperatorSettings(storage="s3://bucket/steelyard", pods=PODS)


def step_template(**more: Any) -> Json:
    _, job = job_and_config(make_report(**more), Step("run", "run_report", 60), 1, 60, SETTINGS)
    return dict(job["spec"]["template"])


def session_template(**more: Any) -> Json:
    *_, deployment = session_objects(make_session(**more), SETTINGS)
    return dict(deployment["spec"]["template"])


@pytest.mark.parametrize("template", [step_template(), session_template()], ids=["a step", "a session"])
def test_every_pod_has_what_the_settings_say_of_all(template: Json) -> None:
    metadata, spec = template["metadata"], template["spec"]
    assert metadata["annotations"] == {"example.com/cost": "42"}
    assert metadata["labels"]["team"] == "ml"
    assert metadata["labels"][COMPONENT] != "mine", "network policies rest on the platform's own labels"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"].items() >= {"pool": "steelyard"}.items()
    toleration = {
        "key": "team",
        "operator": "Equal",
        "value": "ml",
        "effect": "NoExecute",
        "tolerationSeconds": 60,
    }
    assert toleration in spec["tolerations"]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("low", "gvisor")
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    assert all(container["resources"]["limits"]["cpu"] for container in containers)


def test_a_secret_of_the_accounts_own_stands_before_those_of_the_settings() -> None:
    template = session_template(secrets={"imagePull": "mine"})
    assert template["spec"]["imagePullSecrets"] == [{"name": "mine"}, {"name": "registry"}]


@pytest.mark.parametrize(("use", "is_spot"), [({}, True), ({"useSpotPods": False}, False)])
def test_a_session_runs_on_nodes_that_may_go_if_it_says_so(use: Json, is_spot: bool) -> None:
    spec = session_template(**use)["spec"]
    assert ("cloud.example.com/spot" in spec["nodeSelector"]) is is_spot
    assert (len(spec["tolerations"]) == 2) is is_spot
    assert "cloud.example.com/spot" not in step_template()["spec"]["nodeSelector"]


def test_without_settings_pods_are_as_they_were() -> None:
    plain = OperatorSettings(storage="s3://bucket/steelyard")
    *_, deployment = session_objects(make_session(), plain)
    spec = deployment["spec"]["template"]["spec"]
    assert not {"imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName"} & spec.keys()
    assert "annotations" not in deployment["spec"]["template"]["metadata"]


@pytest.mark.parametrize(
    ("resources", "limit"),
    [({}, "2"), ({"requests": {"cpu": "4"}}, "4"), ({"limits": {"cpu": "1"}, "requests": {"cpu": "4"}}, "1")],
    ids=["nothing", "more is requested", "a limit of its own"],
)
def test_a_container_without_a_limit_of_processors_gets_one(resources: Json, limit: str) -> None:
    limited = limit_cpu({"name": "c", "resources": resources}, "2")
    assert limited["resources"]["limits"]["cpu"] == limit


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": {"-": "x"}},
        {"labels": {"a": "no blank"}},
        {"pull_secrets": ["Registry"]},
        {"cpu_limit": "two"},
        {"tolerations": [{"operator": "Exists", "key": "a", "value": "b"}]},
        {"tolerations": [{"value": "b"}]},
        {"tolerations": [{"key": "a", "toleration_seconds": 5}]},
        {"tolerations": [{"key": "a", "effect": "Sometimes"}]},
        {"node_selectors": {}},
    ],
    ids=str,
)
def test_a_setting_that_kubernetes_would_refuse_is_refused_at_the_start(wrong: Json) -> None:
    with pytest.raises(ValidationError):
        PodSettings(**wrong)
