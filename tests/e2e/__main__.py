"""`python -m tests.e2e`: writes `wheel.txt` anew, the list of what the wheels hold."""

import tempfile
from pathlib import Path

from tests.e2e.conftest import build
from tests.e2e.contents import LISTED, Contents


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents = Contents(sorted(build(Path(folder)).parent.glob("*.whl")))
    LISTED.write_text("\n".join(contents.packages) + "\n")
    print(f"{LISTED}: written")


if __name__ == "__main__":
    main()
