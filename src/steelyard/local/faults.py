"""Counts what the parts of the embedded Kubernetes could not work on, object by object, for `/metrics`."""

from collections import Counter

_NAME = "steelyard_kubernetes_faults_total"


class Faults:
    """Unexpected exceptions by part of the process and kind of object. None of them ended the part."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, part: str, kind: str) -> None:
        self._counts[part, kind] += 1

    def of(self, part: str, kind: str) -> int:
        return self._counts[part, kind]

    def text(self) -> str:
        """Return the counts in Prometheus' form."""
        lines = [f"# HELP {_NAME} Objects that a part could not work on.", f"# TYPE {_NAME} counter"]
        for (part, kind), number in sorted(self._counts.items()):
            lines.append(f'{_NAME}{{part="{part}",kind="{kind}"}} {number}')
        return "\n".join(lines) + "\n"
