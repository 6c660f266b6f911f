"""AdmissionReviews: the answer to a question of the API, as a pure function."""

import base64

import orjson

from steelyard.operator.ray.admission.rules import Fault, find_faults, join_faults
from steelyard.operator.ray.certificates.templates import with_certificates
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_annotations
from steelyard_schema.ray_annotations import CERTIFICATES


class NotAReview(ValueError):
    """The body is not a review of the API."""


def validate(review: Json) -> Json:
    """Answer whether an object may be kept as it is. Raises NotAReview."""
    request = _request(review)
    faults = find_faults(mapping(request, "object"), request.get("oldObject") or None)
    return _answer(request, {"allowed": True} if not faults else _refusal(request, faults))


def mutate(review: Json, settings: RaySettings, url: str) -> Json:
    """Answer with the additions to a RayCluster so that its Pods use certificates. Raises NotAReview."""
    request = _request(review)
    obj, old = mapping(request, "object"), request.get("oldObject") or None
    patch: list[Json] = []
    # The Pods of a cluster that was made without certificates go on running: later ones must be like them.
    if old is None or read_annotations(old).get(CERTIFICATES):
        changed = with_certificates(obj, settings, url)
        if changed != obj:
            patch = [
                {"op": "add", "path": "/metadata/annotations", "value": read_annotations(changed)},
                {"op": "replace", "path": "/spec", "value": changed["spec"]},
            ]
    answer: Json = {"allowed": True}
    if patch:
        answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    return _answer(request, answer)


def _request(review: Json) -> Json:
    request = review.get("request")
    if review.get("kind") != "AdmissionReview" or not isinstance(request, dict) or not request.get("uid"):
        raise NotAReview("the body is not an AdmissionReview with a request")
    return request


def _refusal(request: Json, faults: list[Fault]) -> Json:
    kind = mapping(request, "kind")
    causes = [{"reason": "FieldValueInvalid", "field": fault.path, "message": fault.text} for fault in faults]
    details = {"group": kind.get("group", ""), "kind": kind.get("kind", ""), "causes": causes}
    status = {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": join_faults(faults),
        "details": {**details, "name": request.get("name", "")},
    }
    return {"allowed": False, "status": status}


def _answer(request: Json, response: Json) -> Json:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], **response},
    }
