"""Check of AppWrappers as they are written: a user may not make by one what they may not make directly.

Its controller makes the components with rights of its own, and the API would drop from them what Pods do not have.
"""

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.resource import APP_WRAPPERS, find_resource
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.rbac import Rbac
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_schema.unknown_fields import unknown_pod_fields

_BUCKET = f"{APP_WRAPPERS.plural}.{APP_WRAPPERS.group}"


def check_components(rbac: Rbac, kind: ResourceType, obj: Json, old: Json | None, user: User) -> None:
    """Raise Refusal where a Pod of a component has a field that Pods do not have, or where the user may not create one
    of the components, which is said in the words of AppWrapper's webhook.
    """
    # Another kind's spec may be a list, or anything that its definition allows.
    if kind.bucket != _BUCKET:
        return
    components = sequence(mapping(obj, "spec"), "components")
    if old is not None and components == sequence(mapping(old, "spec"), "components"):
        return
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    if unknown := [errors.Cause(*field) for field in unknown_pod_fields(components, "spec.components")]:
        raise errors.is_invalid(kind.group, kind.kind, name, unknown)
    for number, component in enumerate(components):
        if mapping(component, "template").get("kind") == APP_WRAPPERS.kind:
            where = f"spec.components[{number}].template.kind"
            text = "an AppWrapper has no AppWrappers: each level would hold what is below it once more"
            raise errors.is_invalid(kind.group, kind.kind, name, [errors.forbidden_field(where, text)])
    if user.is_master:
        return
    for number, component in enumerate(components):
        try:
            part = find_resource(mapping(component, "template"))
        except KeyError:
            continue  # of a kind that the controller cannot make, which it says
        wish = Attributes("create", part.group, part.version, part.plural, "", namespace)
        if not rbac.decide(user, wish).allowed:
            where = f"spec.components[{number}].template: Forbidden"
            text = f"{where}: User {user.name} is not authorized to create {part.plural} in {namespace}"
            raise errors.forbidden(kind.group, kind.plural, name, text)
