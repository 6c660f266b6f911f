"""Rules of Kubernetes for names, labels, annotations and resources: each answers with the faults of a value.

The embedded API server refuses objects by them, and the cluster client refuses configurations by them before it sends
anything.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from steelyard_schema.quantity import amount

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_SERVICE}')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_WITH_PREFIX = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '({_QUALIFIED})?')"
)
_VARIABLE_TEXT = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_DATA_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',"
    "  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_CHECKS = {
    "subdomain": (re.compile(_SUBDOMAIN), _SUBDOMAIN_TEXT, 253),
    "label": (re.compile(_LABEL), _LABEL_TEXT, 63),
    "service": (re.compile(_SERVICE), _SERVICE_TEXT, 63),
}
_KEY = re.compile(_QUALIFIED)
_PREFIX = re.compile(_SUBDOMAIN)
_VARIABLE = re.compile("[ -<>-~]+")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
ANNOTATION_BYTES = 256 << 10
"""Maximum bytes of all annotations of an object, keys and values together."""


def name_faults(name: str, form: str = "subdomain", *, ended: str | None = None) -> Iterator[str]:
    """Yield the faults of a name of the form `subdomain`, `label` or `service`.

    `ended`: the name as it may become, where only its beginning is given.
    """
    pattern, text, limit = _CHECKS[form]
    if len(name) > limit:
        yield f"must be no more than {limit} characters"
    whole = name if ended is None else ended
    if not pattern.fullmatch(whole):
        dotted = form == "label" and _PREFIX.fullmatch(whole)
        yield "must not contain dots" if dotted else text


def key_faults(key: str) -> Iterator[str]:
    """Yield the faults of a label's key: an optional DNS prefix, a slash, a name."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        yield f"a qualified name {_KEY_TEXT.removeprefix('name part ')}{_WITH_PREFIX}"
        return
    for prefix in prefixes:
        if not prefix:
            yield "prefix part must be non-empty"
            continue
        if len(prefix) > 253:
            yield "prefix part must be no more than 253 characters"
        if not _PREFIX.fullmatch(prefix):
            yield f"prefix part {_SUBDOMAIN_TEXT}"
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield "name part must be no more than 63 characters"
    if not _KEY.fullmatch(name):
        yield _KEY_TEXT


def value_faults(value: str) -> Iterator[str]:
    """Yield the faults of a label's value."""
    if len(value) > 63:
        yield "must be no more than 63 characters"
    if value and not _KEY.fullmatch(value):
        yield _VALUE_TEXT


def annotations_size(annotations: Mapping[str, str]) -> int:
    """Return the bytes of all annotations, as they are compared with ANNOTATION_BYTES."""
    return sum(len(text.encode(errors="surrogatepass")) for pair in annotations.items() for text in pair)


def variable_faults(name: str) -> Iterator[str]:
    """Yield the faults of a variable's name."""
    if not _VARIABLE.fullmatch(name):
        yield _VARIABLE_TEXT


def data_key_faults(key: str) -> Iterator[str]:
    """Yield the fault of a key of a ConfigMap's or a Secret's data; the first one, as Kubernetes says no other."""
    if len(key) > 253:
        yield "must be no more than 253 characters"
    elif not _DATA_KEY.fullmatch(key):
        yield _DATA_KEY_TEXT
    elif key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
COUNTED_RESOURCES = (
    "pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas",
)  # fmt: skip


def is_counted(resource: str) -> bool:
    """Return whether a resource is counted in pieces, as all but Kubernetes' own are."""
    # A name without a domain, or in Kubernetes' own, is of Kubernetes; all other names are of devices.
    return resource in COUNTED_RESOURCES or ("/" in resource and "kubernetes.io/" not in resource)


def resource_name_faults(resource: str) -> list[str]:
    """Return the faults of a name under a container's requests and limits."""
    faults = list(key_faults(resource))
    if "/" in resource:
        # Quotas name what is requested of a device with a prefix, so the name has to leave room for it.
        device = "kubernetes.io/" not in resource
        if device and (resource.startswith("requests.") or any(key_faults(f"requests.{resource}"))):
            faults.append("doesn't follow extended resource name standard")
        return faults
    huge = resource.startswith("hugepages-")
    if not faults and resource not in (*STANDARD_RESOURCES, *COUNTED_RESOURCES) and not huge:
        faults.append("must be a standard resource type or fully qualified")
    if resource not in STANDARD_RESOURCES and not huge:
        faults.append("must be a standard resource for containers")
    return faults


def huge_pages_faults(resource: str, value: Decimal) -> Iterator[str]:
    """Yield the fault of an amount of huge pages, which has to be a number of whole pages."""
    try:
        page = amount(resource.removeprefix("hugepages-"))
    except ValueError:
        page = Decimal(0)
    if page <= 0 or page % 1 or value % page:
        yield f"is not positive integer multiple of {resource}"
