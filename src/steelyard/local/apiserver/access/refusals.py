"""Refusals of what a user may not do, in the words of Kubernetes."""

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.access.attributes import Attributes
from steelyard.local.apiserver.access.users import User
from steelyard.local.apiserver.errors import Refusal
from steelyard.types import Json


def refused(user: User, wanted: Attributes, reason: str = "") -> Refusal:
    """The answer 403 to a request that authorization refuses."""
    ending = f": {reason}" if reason else ""
    if not wanted.resource:
        text = f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"{ending}'
        return Refusal(403, "Forbidden", text, {})
    what = f'cannot {wanted.verb} resource "{wanted.full_resource}" in API group "{wanted.group}"'
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    about = errors.qualified(wanted.group, wanted.resource)
    name = f' "{wanted.name}"' if wanted.name else ""
    details: Json = {"name": wanted.name} if wanted.name else {}
    details |= {"group": wanted.group} if wanted.group else {}
    details["kind"] = wanted.resource
    text = f'{about}{name} is forbidden: User "{user.name}" {what} {where}{ending}'
    return Refusal(403, "Forbidden", text, details)
