"""A wrong setting is one line that names it, its value, and what is allowed."""

from pathlib import Path

import pytest

from steelyard.errors import UsageError
from steelyard.settings import load


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "egres = 1",
            "settings: egres: is not a field here, with the value 1; there are accounts, api, archive, ",
        ),
        (
            "[egress]\nhost = 'x'",
            "egress.host: is not a field here, with the value 'x'; there are networks, services, ",
        ),
        ("[egress]\nwebhooks = 'x'", "settings: egress.webhooks: should be a list, and is 'x'"),
        (
            "[egress]\nsources = ['https://']",
            "settings: egress.sources.0: should be a host, *.DOMAIN or *, behind http:// where TLS is not needed, "
            "before :PORT where only that port is allowed; is 'https://'",
        ),
        (
            "[webhooks]\nbacklog = 'many'",
            "webhooks.backlog: should be a valid integer, unable to parse string as an ",
        ),
    ],
)
def test_a_wrong_setting_is_named(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "steelyard.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as refused:
        load(path, tmp_path)
    assert words in str(refused.value)
