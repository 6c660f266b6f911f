"""AdmissionReviews: the question to a webhook and its answer, with a real server's words for what is wrong with one."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Refusal

GROUP = "admission.k8s.io"
_NO_OBJECT = "json: cannot unmarshal string into Go value of type struct { "
_NO_OBJECT += r'APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


@dataclass(frozen=True)
class Verdict:
    """The answer of one webhook; `failure` says why there is none."""

    allowed: bool = False
    failure: str = ""
    patch: tuple[Json, ...] = ()
    status: Json | None = None
    warnings: tuple[str, ...] = ()


def make_review(hook: Json, request: Json) -> Json | None:
    """The question in a version that the webhook reads; None where there is none."""
    for version in hook.get("admissionReviewVersions") or []:
        if version in ("v1", "v1beta1"):
            return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    return None


def read_verdict(review: Json, body: bytes, *, mutating: bool) -> Verdict:
    """Read an answer to a question."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = ""
    problem = _problem(review, answer, mutating=mutating)
    if problem:
        return Verdict(failure=problem)
    response = answer["response"]
    patch: Any = ()
    if mutating and response.get("patch"):
        try:
            patch = orjson.loads(base64.b64decode(response["patch"], validate=True))
            patch = tuple(dict(operation) for operation in patch)
        except (ValueError, TypeError, binascii.Error) as error:
            return Verdict(failure=f"received undecodable patch in webhook response: {error}")
        if patch and response.get("patchType", "JSONPatch") != "JSONPatch":
            return Verdict(failure=f'unsupported patch type "{response["patchType"]}"')
    warnings = tuple(str(warning) for warning in response.get("warnings") or ())
    return Verdict(bool(response.get("allowed")), "", patch, response.get("status"), warnings)


def _problem(review: Json, answer: object, *, mutating: bool) -> str:
    """Return the fault of an answer that is not a review."""
    if not isinstance(answer, dict):
        return f"failed to call webhook: couldn't get version/kind; json parse error: {_NO_OBJECT}"
    version, kind = answer.get("apiVersion") or review["apiVersion"], answer.get("kind") or review["kind"]
    if kind != review["kind"] or str(version).partition("/")[0] != GROUP:
        text = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'
        return f"failed to call webhook: {text}"
    invalid = "received invalid webhook response: "
    response = answer.get("response")
    if not isinstance(response, dict):
        return f"{invalid}webhook response was absent"
    if review["apiVersion"] != f"{GROUP}/v1":
        return ""
    uid, answered = review["request"]["uid"], response.get("uid") or ""
    if answered != uid:
        return f'{invalid}expected response.uid="{uid}", got "{answered}"'
    if version != review["apiVersion"]:
        expected = f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview"
        return f"{invalid}{expected}, got {version}, Kind={kind}"
    return _patch_problem(response, mutating=mutating)


def _patch_problem(response: Json, *, mutating: bool) -> str:
    invalid = "received invalid webhook response: "
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        for name, value in (("patch", patch), ("patchType", kind)):
            if value:
                return f"{invalid}validating webhook may not return response.{name}"
        return ""
    if patch and kind is None:
        return f"{invalid}webhook returned response.patch but not response.patchType"
    if not patch and kind is not None:
        return f"{invalid}webhook returned response.patchType but not response.patch"
    return ""


# ---- refusals


def denial(hook: str, status: Json | None) -> Refusal:
    """A write that a webhook does not allow."""
    status = dict(status or {})
    text = f'admission webhook "{hook}" denied the request'
    reason, message = str(status.get("reason") or ""), status.get("message")
    text += f": {message or reason}" if message or reason else " without explanation"
    code = int(status.get("code") or 0)
    return Refusal(code if code >= 400 else 400, reason, text, status.get("details"))


def call_failure(hook: str, failure: str) -> Refusal:
    """A write for which a webhook has no answer."""
    text = f'failed calling webhook "{hook}": {failure}'
    details = {"causes": [{"message": text}]}
    return Refusal(500, "InternalError", f"Internal error occurred: {text}", details)


def no_dry_run(hook: str) -> Refusal:
    return Refusal(400, "BadRequest", f'admission webhook "{hook}" does not support dry run')
