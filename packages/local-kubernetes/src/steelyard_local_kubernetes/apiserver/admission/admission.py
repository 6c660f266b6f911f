"""Questions that `Objects` asks about each write besides the rules of its kind; here nothing is refused or changed."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.options import Options


class Admission:
    """Checks of a write besides its kind's own rules; `admission/server.py` has the server's."""

    def check_place(self, kind: ResourceType, obj: Json) -> None:
        """Refuse a new object where none may be created."""

    def add_to(self, kind: ResourceType, obj: Json, options: Options) -> None:
        """Add to a new object what it gets from others, before its fields are completed."""

    def mutates(self, kind: ResourceType, old: Json | None, options: Options) -> bool:
        """Return whether `mutate` has to be asked: most writes are spared it."""
        return False

    def mutate(
        self, kind: ResourceType, obj: Json, old: Json | None, options: Options, subresource: str = ""
    ) -> None:
        """Change an object before its rules are checked."""

    def admit(
        self, kind: ResourceType, obj: Json, old: Json | None, options: Options, subresource: str = ""
    ) -> None:
        """Refuse an object that its own rules allow."""

    def admit_part(
        self, kind: ResourceType, key: Key, part: Json | None, options: Options, subresource: str
    ) -> None:
        """Refuse, or change, a document for a subresource that is not a form of the object itself."""

    def admit_delete(self, kind: ResourceType, item: Item, options: Options) -> None: ...

    def before_delete(self, kind: ResourceType, obj: Json) -> None:
        """Add what must be done before the object may go."""
