"""Answers in YAML, for clients that ask for it: the JSON answer, written as a real server writes YAML."""

import re
from typing import Any

import orjson
import yaml

from steelyard_local_kubernetes.apiserver.messages import JSON, Request, Response

YAML = "application/yaml"
_JSON_LIKE = ("application/json", "application/*", "*/*")


def wants_yaml(request: Request) -> bool:
    """Return whether the first media type of Accept that is served is YAML."""
    accept = request.headers.get("accept", "")
    if YAML not in accept.lower():
        return False
    media = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return next((name == YAML for name in media if name == YAML or name in _JSON_LIKE), False)


def in_yaml(response: Response) -> Response:
    """The same answer in YAML; streams and texts stay as they are."""
    if response.content_type != JSON or not isinstance(response.body, bytes):
        return response
    response.body = yaml.dump(orjson.loads(response.body), Dumper=_Dumper, allow_unicode=True).encode()
    response.content_type = YAML
    return response


class _Dumper(yaml.SafeDumper):
    """YAML in the form of Go's library, in which texts that resemble other values are in double quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    plain = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
    plain = plain and value not in _LETTERS and not _NUMBER.fullmatch(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_NUMBER = re.compile(r"[-+]?\d+[eE][-+]?\d+")  # for Go's library; this one wants a point
_LETTERS = ("y", "Y", "n", "N")  # truth values for Go's library, and for this one texts
_RESOLVER: Any = yaml.resolver.Resolver()
_Dumper.add_representer(str, _text)
