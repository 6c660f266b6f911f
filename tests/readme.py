"""The README's examples in Python, as they stand there."""

import re

from tests.source import ROOT

EXAMPLES = EVALUATION, TRAINING = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
)
