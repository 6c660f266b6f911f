"""Claims of a StatefulSet's Pods: their names, their owners by the retention policy, and the volumes that use them.

`stateful_set.decide` asks these functions. A claim outlives its Pod; it goes with the set or with a Pod that was
scaled away only if `persistentVolumeClaimRetentionPolicy` says Delete, and then the garbage collector takes it.
"""

from copy import deepcopy

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import owner_references, read_labels
from steelyard_local_kubernetes.controllers.pods import owner_reference


def claim_name(sset: Json, template: Json, number: int) -> str:
    return f"{template['metadata']['name']}-{sset['metadata']['name']}-{number}"


def is_claim_of(sset: Json, claim: Json) -> bool:
    """Return whether the claim's name is that of one of the set's claims."""
    name = str(claim["metadata"]["name"])
    base, _, number = name.rpartition("-")
    return number.isdecimal() and any(
        base == f"{template['metadata']['name']}-{sset['metadata']['name']}"
        for template in sequence(sset["spec"], "volumeClaimTemplates")
    )


def make_claims(sset: Json, number: int) -> list[Json]:
    """Return the claims of the Pod with this number."""
    claims = []
    for template in sequence(sset["spec"], "volumeClaimTemplates"):
        metadata = {
            key: template["metadata"][key] for key in ("annotations",) if template["metadata"].get(key)
        }
        labels = {**read_labels(template), **mapping(sset["spec"]["selector"], "matchLabels")}
        metadata |= {"name": claim_name(sset, template, number), "namespace": sset["metadata"]["namespace"]}
        claims.append({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**metadata, "labels": labels},
            "spec": deepcopy(template["spec"]),
        })  # fmt: skip
    return claims


def volumes(sset: Json, number: int, listed: list[Json]) -> list[Json]:
    """Return the Pod's volumes: one for each claim, which comes before a volume of the template of that name."""
    claimed = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(sset, template, number)},
        }
        for template in sequence(sset["spec"], "volumeClaimTemplates")
    ]
    own = {volume["name"] for volume in claimed}
    return [*claimed, *(volume for volume in listed if volume["name"] not in own)]


def is_stale(claim: Json | None, pod_name: str) -> bool:
    """Return whether the claim belongs to a Pod of that name that is gone, so that garbage collection will take it."""
    references = owner_references(claim) if claim else []
    return any(reference["kind"] == "Pod" and reference["name"] == pod_name for reference in references)


def owners_patch(sset: Json, pod: Json, claim: Json, scaled_down: bool) -> Json | None:
    """Return the patch of the claim's owners, or None where they are as the policy wants them."""
    policy = mapping(sset["spec"], "persistentVolumeClaimRetentionPolicy")
    with_set, with_pod = policy.get("whenDeleted") == "Delete", policy.get("whenScaled") == "Delete"
    before = owner_references(claim)
    mine = {("StatefulSet", sset["metadata"]["name"]), ("Pod", pod["metadata"]["name"])}
    others = [reference for reference in before if (reference["kind"], reference["name"]) not in mine]
    if any(reference.get("controller") for reference in others):
        return None  # another controller's: it decides
    uids = {sset["metadata"]["uid"], pod["metadata"]["uid"]}
    if any(reference["uid"] not in uids for reference in before if reference not in others):
        return None  # an earlier Pod's or set's: the garbage collector is about to take it
    wanted_owners = []
    # Both would keep the claim of a Pod that was scaled away for as long as the set is there.
    if with_set and not (with_pod and scaled_down):
        wanted_owners.append(owner_reference(sset))
    if with_pod and scaled_down:
        wanted_owners.append(owner_reference({"apiVersion": "v1", "kind": "Pod", **pod}))
    after = [*others, *wanted_owners]
    if after == before or _uids(after) == _uids(before):
        return None
    version = claim["metadata"]["resourceVersion"]
    return {"metadata": {"ownerReferences": after, "resourceVersion": version}}


def _uids(references: list[Json]) -> set[str]:
    return {str(reference["uid"]) for reference in references}
