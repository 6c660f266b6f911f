"""Every field of the cluster client compared with the API server: what the one refuses, the other refuses, and the
reverse."""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.clusters import BadConfig
from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from tests.kubernetes_api.api import tls_context
from tests.kubernetes_api.client_fields import FIELDS, Field, objects


class DryRunServer:
    """The API server under test, which takes an object or refuses it, and keeps nothing."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        host = urlsplit(cluster["server"]).netloc
        self._connection = http.client.HTTPSConnection(host, context=tls_context(cluster, user), timeout=30)
        self._headers = {"Content-Type": "application/json"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"

    def refusal(self, config: Any) -> str:
        """The first refusal of the configuration's objects; empty if all are taken."""
        return next(filter(None, (self._refusal(path, obj) for path, obj in objects(config))), "")

    def _refusal(self, path: str, obj: Json) -> str:
        status, body = self._request("POST", f"{path}?dryRun=All", obj)
        assert status in (201, 400, 403, 409, 422), body
        return "" if status in (201, 409) else str(json.loads(body)["message"])

    def define(self, definition: Json) -> None:
        """Make a kind, unless it is there, and return once it is served."""
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        assert self._request("POST", crds, definition)[0] in (201, 409)
        while self._request("GET", f"/apis/{group}/v1/{plural}")[0] != 200:
            time.sleep(0.1)

    def _request(self, method: str, path: str, body: Json | None = None) -> tuple[int, str]:
        self._connection.request(method, path, json.dumps(body) if body else None, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def api_server(kubeconfig: Path) -> Iterator[DryRunServer]:
    made = DryRunServer(kubeconfig)
    with contextlib.closing(made):
        made.define(next(obj for obj in list_definitions() if obj["spec"]["names"]["kind"] == "RayCluster"))
        yield made


def agree(api_server: DryRunServer, field: Field, value: Any) -> None:
    try:
        field.checked(value)
        ours = ""
    except BadConfig as error:
        ours = str(error)
    theirs = api_server.refusal(field.raw(value)) or field.stricter(value)
    assert bool(ours) == bool(theirs), (
        f"{value!r}: ours: {ours or 'taken'}; the server's: {theirs or 'taken'}"
    )


@pytest.mark.parametrize("name", FIELDS)
def test_values_at_the_edges_of_a_rule(api_server: DryRunServer, name: str) -> None:
    wrong = []
    for value in FIELDS[name].edges:
        try:
            agree(api_server, FIELDS[name], value)
        except AssertionError as error:
            wrong.append(str(error).splitlines()[0])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FIELDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_values_drawn_near_a_rule(api_server: DryRunServer, name: str, data: st.DataObject) -> None:
    agree(api_server, FIELDS[name], data.draw(FIELDS[name].drawn))
