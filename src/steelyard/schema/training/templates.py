"""The names that the environment of a Framework may have in `${…}`. The schema refuses others; the operator fills in.

`$(NAME)` is Kubernetes' own and passes; `$${` stands for `${`.
"""

ROLE_NAME = "[a-z][-a-z0-9]*"
PLAIN = (
    "job.name",
    "job.namespace",
    "role",
    "index",
    "rank",
    "world.size",
    "port",
    "host",
    "cluster.json",
)
OF_A_ROLE = ("count", "hosts", "addresses")
OF_A_REPLICA = ("host", "address", "port")

THERE_ARE = ", ".join(
    [
        *PLAIN,
        *(f"<role>.{each}" for each in OF_A_ROLE),
        *(f"<role>.<index>.{each}" for each in OF_A_REPLICA),
    ]
)
"""For messages."""


def _pattern() -> str:
    """Without a backslash, so that it is the same text in CEL, in JSON and here."""
    plain = [each.replace(".", "[.]") for each in PLAIN]
    role = f"{ROLE_NAME}[.]({'|'.join(OF_A_ROLE)})"
    replica = f"{ROLE_NAME}[.][0-9]+[.]({'|'.join(OF_A_REPLICA)})"
    name = "|".join([*plain, role, replica])
    return f"^([^$]|[$][$][{{]|[$][{{]({name})[}}]|[$]+[^${{]|[$]+$)*$"


PATTERN = _pattern()
"""What a value looks like in which every name exists."""
