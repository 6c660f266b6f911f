"""Reviews of who one is and what one may: whoever has a token may do everything."""

from collections.abc import Callable

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.messages import Request, Response, json_response
from steelyard.local.apiserver.parameters import PROTOBUF, content_type, json_value
from steelyard.types import Json


def _body(request: Request) -> Json:
    if request.method != "POST":
        raise errors.method_not_allowed()
    if content_type(request) == PROTOBUF:
        raise errors.unsupported_media("this server reads no protobuf: send application/json")
    body = json_value(request.body)
    if not isinstance(body, dict):
        raise errors.bad_request("the body is no JSON object")
    return body


def _access(request: Request) -> Response:
    return json_response({**_body(request), "status": {"allowed": True}}, 201)


def _self(request: Request) -> Response:
    # The group that Kubernetes lets do everything: that is what a token means here.
    user = {"username": request.user, "groups": ["system:masters", "system:authenticated"]}
    return json_response({**_body(request), "status": {"userInfo": user}}, 201)


Review = Callable[[Request], Response]
REVIEWS: dict[tuple[str, str, str], Review] = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): _access,
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): _self,
}
KINDS = {
    ("authorization.k8s.io", "v1"): [("selfsubjectaccessreviews", "SelfSubjectAccessReview")],
    ("authentication.k8s.io", "v1"): [("selfsubjectreviews", "SelfSubjectReview")],
}
