"""The Node as the kubelet writes it."""

import re

from steelyard_common import __version__
from steelyard_local_kubernetes.apiserver.discovery import VERSION
from steelyard_local_kubernetes.kubelet.node import node_object

SEMANTIC = re.compile(r"v(\d+)\.(\d+)\.\d+(?:\+[0-9a-z.-]+)?")
RUNTIME = re.compile(r"(\w+)://(\d+\.\d+\.\d+\S*)")


def test_clients_can_parse_the_versions_of_the_node() -> None:
    info = node_object("n", {}, can={}, now="2026-01-01T00:00:00Z")["status"]["nodeInfo"]
    version, runtime = (
        SEMANTIC.fullmatch(info["kubeletVersion"]),
        RUNTIME.fullmatch(info["containerRuntimeVersion"]),
    )
    assert version is not None
    # kubectl and controllers compare the node's release with the server's.
    assert version.groups() == (VERSION["major"], VERSION["minor"])
    assert info["kubeletVersion"] == VERSION["gitVersion"]
    assert runtime is not None
    assert runtime.groups() == ("steelyard", __version__)
