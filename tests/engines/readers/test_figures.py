"""promtool finds no fault in the figures of any process, nor in the rules and the configuration of our page."""

import re
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.engines.readers.conftest import Running
from tests.engines.readers.programs import AGES, promtool
from tests.integration.conftest import Machine
from tests.integration.test_metrics import EXPECTED, PAGE, status

V1 = re.compile(r"(created|deleted|failed)_pods|training_operator_jobs_\w+")
"""Names of version 1's training operator, kept for its dashboards."""


def checked(age: str, *words: str, stdin: bytes = b"") -> list[str]:
    """Return the lines of what promtool complains about."""
    done = subprocess.run([promtool(age), "check", *words], input=stdin, capture_output=True, check=False)
    lines = (done.stderr + done.stdout).decode().splitlines()
    if done.returncode == 0:
        return []
    assert lines
    return lines


def exposition(machine: Machine, url: str) -> bytes:
    request, context = urllib.request.Request(url), None
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=str(machine.state.pki / "ca.crt"))
        request.add_header("Authorization", f"Bearer {machine.state.token.read_text().strip()}")
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("age", AGES)
def test_no_process_has_a_figure_that_promtool_complains_about(running: Running, age: str) -> None:
    addresses = status(running.machine)
    assert set(addresses) == set(EXPECTED)
    faults = [
        f"{process}: {line}"
        for process, url in addresses.items()
        for line in checked(age, "metrics", stdin=exposition(running.machine, url))
        if not V1.match(line)
    ]
    assert faults == []


@pytest.mark.parametrize("age", AGES)
def test_what_is_no_exposition_is_complained_about(age: str) -> None:
    assert checked(age, "metrics", stdin=b"# TYPE waits_ms gauge\nwaits_ms 1\n")


@pytest.mark.parametrize("age", AGES)
def test_the_page_has_rules_and_a_configuration_that_promtool_takes(age: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    read = {name: block for block in blocks for name in yaml.safe_load(block)}
    (tmp_path / "rules.yaml").write_text(read["groups"])
    (tmp_path / "prometheus.yaml").write_text(read["scrape_configs"])
    assert checked(age, "rules", str(tmp_path / "rules.yaml")) == []
    assert checked(age, "config", "--syntax-only", str(tmp_path / "prometheus.yaml")) == []
