"""Variables of Services in containers: names and values as on a cluster."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet.env import Facts, environment
from steelyard_local_kubernetes.kubelet.service_links import select_services, variables
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod


def make_service(name: str, address: str = "127.9.128.1", *ports: Json) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": address, "ports": list(ports) or [{"port": 80}]},
    }


def test_each_port_has_its_variables() -> None:
    ports = ({"name": "http", "port": 80}, {"name": "other-port", "port": 81, "protocol": "UDP"})
    assert variables([make_service("my-web", "127.9.128.1", *ports)]) == {
        "MY_WEB_SERVICE_HOST": "127.9.128.1",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_OTHER_PORT": "81",
        "MY_WEB_PORT": "tcp://127.9.128.1:80",
        "MY_WEB_PORT_80_TCP": "tcp://127.9.128.1:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "127.9.128.1",
        "MY_WEB_PORT_81_UDP": "udp://127.9.128.1:81",
        "MY_WEB_PORT_81_UDP_PROTO": "udp",
        "MY_WEB_PORT_81_UDP_PORT": "81",
        "MY_WEB_PORT_81_UDP_ADDR": "127.9.128.1",
    }


def test_services_without_an_address_have_none() -> None:
    external: Json = {"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}
    assert variables([make_service("web", "None"), external, make_service("new", "")]) == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"ports": "80"},
        {"ports": [{}]},
        {"ports": [80]},
        {"ports": [{"port": 80, "name": 80}]},
        {"ports": 80},
        "80",
    ],
    ids=str,
)
def test_a_service_that_cannot_be_read_takes_no_variables_from_others(spec: object) -> None:
    strange: Json = make_service("strange")
    strange["spec"] = {**strange["spec"], **spec} if isinstance(spec, dict) else spec
    web = make_service("web")
    assert variables([strange, web]) == variables([web])


def names(pod: Json) -> set[str]:
    api = make_service("kubernetes")
    services = select_services(pod, [make_service("web"), api], api)
    return {service["metadata"]["name"] for service in services}


def test_a_pod_without_links_is_given_the_apis_alone() -> None:
    assert names(make_pod()) == {"web", "kubernetes"}
    assert names(make_pod(enableServiceLinks=False)) == {"kubernetes"}


def test_the_manifest_sees_them_and_goes_before_them() -> None:
    env: list[dict[str, Any]] = [
        {"name": "URL", "value": "http://$(WEB_SERVICE_HOST)"},
        {"name": "WEB_SERVICE_HOST", "value": "own"},
        {"name": "AFTER", "value": "$(WEB_SERVICE_HOST)"},
    ]
    container = make_container(env=env)
    links = variables([make_service("web")])
    made = environment(container, make_pod(container), Facts("127.9.0.1", "127.0.0.1", "node"), {}, links)
    assert made == {"URL": "http://127.9.128.1", "WEB_SERVICE_HOST": "own", "AFTER": "own"}
