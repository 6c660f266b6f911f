"""Refusals of what a user may not do, in the words of Kubernetes."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.errors import Refusal


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Refusal:
    """The answer 403 to a request that authorization refuses."""
    ending = f": {reason}" if reason else ""
    if not attributes.resource:
        text = f'forbidden: User "{user.name}" cannot {attributes.verb} path "{attributes.path}"{ending}'
        return Refusal(403, "Forbidden", text, {})
    what = f'cannot {attributes.verb} resource "{attributes.full_resource}" in API group "{attributes.group}"'
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    about = errors.resource_name(attributes.group, attributes.resource)
    name = f' "{attributes.name}"' if attributes.name else ""
    details: Json = {"name": attributes.name} if attributes.name else {}
    details |= {"group": attributes.group} if attributes.group else {}
    details["kind"] = attributes.resource
    text = f'{about}{name} is forbidden: User "{user.name}" {what} {where}{ending}'
    return Refusal(403, "Forbidden", text, details)
