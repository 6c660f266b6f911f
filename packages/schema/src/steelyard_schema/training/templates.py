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
        *(f"<role>.{name}" for name in OF_A_ROLE),
        *(f"<role>.<index>.{name}" for name in OF_A_REPLICA),
    ]
)
"""List of the names, for messages."""


def _pattern() -> str:
    """Return a pattern without a backslash, so that it is the same text in CEL, in JSON and here."""
    plain = [name.replace(".", "[.]") for name in PLAIN]
    role = f"{ROLE_NAME}[.]({'|'.join(OF_A_ROLE)})"
    replica = f"{ROLE_NAME}[.][0-9]+[.]({'|'.join(OF_A_REPLICA)})"
    name = "|".join([*plain, role, replica])
    # RE2 has no look-ahead: the pattern spells out what may follow a dollar sign.
    return f"^([^$]|[$][$][{{]|[$][{{]({name})[}}]|[$]+[^${{]|[$]+$)*$"


PATTERN = _pattern()
"""Pattern of values in which every name exists."""
