"""Panels: text in a terminal, HTML whose texts are escaped, buttons that really work, and none without ipywidgets."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import ipywidgets
import pytest

from steelyard.clusters import Client, widgets
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import RAY_CLUSTER, RAY_JOB
from steelyard.clusters.ray.doubles import make_cluster
from steelyard_kube.errors import Forbidden, Unreachable


@pytest.fixture
def memory() -> MemoryApi:
    memory = MemoryApi()
    memory.store.create(RAY_CLUSTER.at("v1"), make_cluster())
    return memory


@pytest.fixture
def client(memory: MemoryApi) -> Iterator[Client]:
    with Client(api=memory, namespace="team-a") as client:
        yield client


class ShownWidget:
    """A widget as its user sees it."""

    def __init__(self, panel: widgets.Panel) -> None:
        self.table, row, self.said = panel.widget().children
        self.buttons = {
            item.description: item for item in row.children if isinstance(item, ipywidgets.Button)
        }
        self.choice: Any = next(
            (item for item in row.children if isinstance(item, ipywidgets.Dropdown)), None
        )


def test_panels_have_a_text_form(client: Client) -> None:
    assert str(widgets.panel(client)).splitlines()[2].split() == ["demo", "Starting", "0/1"]
    assert str(widgets.job_panel(client)).splitlines()[0] == "Ray jobs"
    assert str(widgets.queue_panel(client)).splitlines()[0] == "Queues"


def test_texts_are_escaped_in_html() -> None:
    panel = widgets.Panel("a", ("X",), lambda: [("<script>",)], {"Say": lambda _: "<script>"})
    assert "&lt;script&gt;" in panel.html()
    shown = ShownWidget(panel)
    shown.choice.value = "<script>"
    shown.buttons["Say"].click()
    assert "&lt;script&gt;" in shown.said.value


def test_refresh_reads_again_and_keeps_the_choice(client: Client, memory: MemoryApi) -> None:
    shown = ShownWidget(widgets.panel(client))
    shown.choice.value = "demo"
    memory.store.create(RAY_CLUSTER.at("v1"), make_cluster("another"))
    assert "another" not in shown.table.value
    shown.buttons["Refresh"].click()
    assert "another" in shown.table.value
    assert (shown.choice.options, shown.choice.value) == (("another", "demo"), "demo")


def test_delete_deletes_what_is_chosen_and_nothing_else(client: Client, memory: MemoryApi) -> None:
    memory.store.create(RAY_CLUSTER.at("v1"), make_cluster("another"))
    shown = ShownWidget(widgets.panel(client))
    shown.choice.value = "demo"
    shown.buttons["Delete"].click()
    assert [status.name for status in client.ray.clusters.list()] == ["another"]
    assert "demo is deleted" in shown.said.value
    assert "demo" not in shown.table.value
    assert (shown.choice.options, shown.choice.value) == (("another",), None)
    shown.buttons["Delete"].click()
    assert "nothing is chosen" in shown.said.value
    assert [status.name for status in client.ray.clusters.list()] == ["another"]


def test_buttons_of_a_cluster_say_what_they_find(client: Client) -> None:
    shown = ShownWidget(widgets.panel(client))
    shown.choice.value = "demo"
    shown.buttons["Details"].click()
    assert "demo: Starting" in shown.said.value
    shown.buttons["Dashboard"].click()
    assert "no Ingress" in shown.said.value


def test_a_job_is_stopped(client: Client, memory: MemoryApi) -> None:
    memory.store.create(
        RAY_JOB.at("v1"), {"metadata": {"name": "job", "namespace": "team-a"}, "spec": {"entrypoint": "true"}}
    )
    shown = ShownWidget(widgets.job_panel(client))
    shown.choice.value = "job"
    shown.buttons["Logs"].click()
    assert "nothing is written yet" in shown.said.value
    shown.buttons["Stop"].click()
    assert client.ray.jobs.get("job").resource["spec"]["suspend"] is True


def test_what_goes_wrong_stands_in_the_widget_and_goes_with_the_next_success(
    client: Client, memory: MemoryApi
) -> None:
    shown = ShownWidget(widgets.panel(client))
    shown.choice.value = "demo"
    memory.refusal = Forbidden('User "u" cannot delete resource "rayclusters"')
    shown.buttons["Delete"].click()
    assert "missing right: delete rayclusters.ray.io" in shown.said.value
    memory.refusal = Unreachable("no route")
    shown.buttons["Refresh"].click()
    assert "does not answer" in shown.said.value
    assert "demo" in shown.table.value
    memory.refusal = None
    shown.buttons["Refresh"].click()
    assert shown.said.value == ""


def test_a_panel_whose_first_reading_fails_is_shown_with_the_reason(
    client: Client, memory: MemoryApi
) -> None:
    memory.refusal = Unreachable("no route")
    shown = ShownWidget(widgets.panel(client))
    assert "does not answer" in shown.said.value
    memory.refusal = None
    shown.buttons["Refresh"].click()
    assert "demo" in shown.table.value


WITHOUT = """
import sys
sys.modules["ipywidgets"] = sys.modules["pandas"] = None
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in ("ipywidgets", "pandas") else found(name, *rest)
del sys.modules["ipywidgets"], sys.modules["pandas"]
from steelyard.clusters import NotConfigured, widgets
panel = widgets.Panel("a", ("X",), lambda: [("b",)])
print(panel.html()[:7], str(panel).split())
try:
    panel.widget()
except NotConfigured as error:
    print(error)
"""


def test_without_ipywidgets_and_pandas_a_panel_is_text_and_html_and_its_buttons_name_what_is_missing() -> (
    None
):
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == "<table> ['a', 'X', 'b']"
    assert "pip install ipywidgets" in run.stdout
