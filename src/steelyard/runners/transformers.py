"""Transformers' own server of chats and completions, for folders of Hugging Face models that vLLM does not know."""

from steelyard.runners.kind import GIB, Requirements, RunnerKind, Serving
from steelyard.runners.weights import safetensors_model

# It takes requests for a model of the very name that it was started with: a link of that name stands for the folder.
_START = (
    "import os, sys, tempfile\n"
    "name, path, place = sys.argv[1], sys.argv[2], tempfile.mkdtemp()\n"
    "os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)\n"
    "os.symlink(os.path.abspath(path), os.path.join(place, name))\n"
    "os.chdir(place)\n"
    "sys.argv = ['transformers', 'serve', name, *sys.argv[3:]]\n"
    "from transformers.cli.transformers import main\n"
    "main()"
)


def _arguments(serving: Serving) -> list[str]:
    return [
        serving.model, "--host", serving.host, "--port", serving.port,
        *(["--dtype", serving.precision] if serving.precision else []),
        *([] if serving.gpus else ["--device", "cpu"]),
    ]  # fmt: skip


TRANSFORMERS = RunnerKind(
    name="transformers",
    title="Transformers",
    serves="folders of Hugging Face models; slow, and takes nearly all of them",
    looked_for="config.json beside *.safetensors",
    find_model=safetensors_model,
    command=lambda serving: ["python", "-c", _START, serving.name],
    arguments=_arguments,
    base_memory=GIB,
    least_cache=GIB // 4,
    ready_path="/health",
    stages={
        r"Loading weights:\s+(\d+)%": r"loading weights, \1 %",
        r"Application startup complete": "opening its port",
    },
    error_line=r"^(?=[\w.]*(?:Error|Exception): )",
    package="transformers",
    module="transformers",
    environments={
        "cpu": Requirements("transformers.txt", 5 * GIB),
        "cuda": Requirements("transformers.txt", 5 * GIB),
    },
    environment={"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"},
)
