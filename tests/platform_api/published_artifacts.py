"""Calls of the published client's methods about artifacts.

It pushes by a program named skopeo, which is not everywhere: a stand-in with the same arguments pushes by `oras`.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.platform_api.published import Laboratory

_SKOPEO = """#!{python}
import sys
import oras.client

command, form, layout, option, credentials, source, target = sys.argv[1:]
assert (command, form, layout, option) == ("copy", "--format", "oci", "--dest-creds"), sys.argv
user, _, password = credentials.partition(":")
target = target.removeprefix("docker://")
client = oras.client.OrasClient(hostname=target.partition("/")[0], insecure=True, auth_backend="basic")
client.auth.set_basic_auth(user, password)
client.push(target=target, files=[source], disable_path_validation=True)
"""


def pushed(lab: Laboratory) -> None:
    programs, content = lab.folder / "programs", lab.folder / "layer"
    programs.mkdir()
    (programs / "skopeo").write_text(_SKOPEO.format(python=sys.executable))
    (programs / "skopeo").chmod(0o755)
    content.write_bytes(b"content")
    artifact = lab.api.artifacts.get(lab.make("OCIArtifact"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(programs), prepend=os.pathsep)
        address = lab.platform.url.removesuffix("/v0").replace("http://", "https://")
        patched.setattr(lab.api, "_registry_url", address)
        lab.api.artifacts.push(artifact, source=str(content))
    assert lab.api.artifacts.finalize(artifact.id) is None
    assert lab.api.artifacts.get(artifact.id).status == "Ready"


ARTIFACTS: dict[Callable[[Laboratory], Any], tuple[str, ...]] = {
    pushed: ("artifacts.push", "artifacts.finalize")
}
