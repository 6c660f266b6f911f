"""Puts each example's train.py, and `steelyard.progress`, into the ConfigMap at the head of its job.yaml.

`python examples/training/embed.py` after an edit; a test holds them equal. The text below the line `---` is written
by hand.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRESS = HERE.parents[1] / "src" / "steelyard" / "progress.py"


def examples() -> list[Path]:
    """The folders whose job.yaml carries its program: not those that kustomize puts together."""
    folders = (path.parent for path in sorted(HERE.glob("*/train.py")))
    return [folder for folder in folders if not (folder / "kustomization.yaml").exists()]


def manifest(folder: Path) -> str:
    """Return the text of job.yaml: the ConfigMap anew, the job as it is."""
    job = (folder / "job.yaml").read_text().rpartition("---\n")[2]
    files = {"train.py": folder / "train.py", "progress.py": PROGRESS}
    texts = "".join(f"  {name}: |\n{_indented(path.read_text())}" for name, path in files.items())
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: digits-{folder.name}\ndata:\n"
    return f"# embed.py writes the ConfigMap from train.py; the job is at the end.\n{head}{texts}---\n{job}"


def _indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else "\n" for line in text.splitlines(keepends=True))


if __name__ == "__main__":
    for example in examples():
        (example / "job.yaml").write_text(manifest(example))
