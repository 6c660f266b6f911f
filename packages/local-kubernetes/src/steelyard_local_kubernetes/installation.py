"""Installs the definitions that are there from the start: the embedded ones, and those of whoever runs Kubernetes."""

import asyncio
from collections.abc import Sequence

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists
from steelyard_kube.objects import read_annotations
from steelyard_kube.patches import merge_patch
from steelyard_kube.resource import CRDS
from steelyard_local_kubernetes.controllers.pods import is_true
from steelyard_local_kubernetes.definitions.building import EMBEDDED
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_local_kubernetes.definitions.vouched import vouch_for

CRD_SECONDS = 20.0


async def install_definitions(cluster: Cluster, definitions: Sequence[Json] = ()) -> None:
    """Bring the resource definitions to this version's, and wait until they are served.

    The caller vouches for the schemas of `definitions`. An embedded one that another project has installed stays as it
    is.
    """
    vouch_for(definitions)
    embedded = list_definitions()
    definitions = [*definitions, *embedded]
    present = {crd["metadata"]["name"]: crd for crd in (await cluster.list(CRDS)).items}
    for definition in definitions:
        name = definition["metadata"]["name"]
        if name not in present:
            try:
                await cluster.create(CRDS, definition)
                continue
            except AlreadyExists:  # a client was faster
                present[name] = await cluster.get(CRDS, name)
        if definition in embedded and EMBEDDED not in read_annotations(present[name]):
            continue
        # A merge patch of the whole spec. One that changes nothing would be no write, but all checks of the schema.
        patch = {"spec": definition["spec"]}
        if merge_patch(present[name], patch) != present[name]:
            await cluster.patch(CRDS, name, patch)
    async with asyncio.timeout(CRD_SECONDS):
        waiting = [definition["metadata"]["name"] for definition in definitions]
        while waiting:
            established = {
                definition["metadata"]["name"]: definition for definition in (await cluster.list(CRDS)).items
            }
            waiting = [name for name in waiting if not is_true(established.get(name, {}), "Established")]
            await asyncio.sleep(0.05 if waiting else 0)
