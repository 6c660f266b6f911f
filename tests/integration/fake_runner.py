"""A fake runner: a program in an environment's place that starts, serves, crashes and leaves workers behind as vLLM.

`install` puts it where `steelyard runners install vllm` puts the real one; FAKE_… variables say how it behaves.
"""

import json
import sys
from pathlib import Path

from steelyard.local.runners.environments import Environment, data_folder, lock_digest, write
from steelyard.runners.table import KINDS

PROGRAM = """#!{python}
import http.server, json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(os.environ.get("FAKE_FOLDER") or pathlib.Path(__file__).parent)
arguments = sys.argv[1:]
with (folder / "starts").open("a") as file:
    file.write(json.dumps({{"arguments": arguments, "pid": os.getpid()}}) + "\\n")
if os.environ.get("FAKE_CRASH") or (pathlib.Path(__file__).parent / "crash").exists():
    print("(EngineCore pid=7) ERROR 11-22 10:00:00 [core.py:866] ValueError: the cache is too small", flush=True)
    print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
    sys.exit(1)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
(folder / "worker").write_text(str(worker.pid))
print("INFO 11-22 [model_runner.py] Starting to load model mine...", flush=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the worker stays
answers = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({{"version": "0.0"}} if self.path == "/version" else {{"data": [{{"id": "mine"}}]}})

    def do_POST(self):
        global answers
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answers += 1
        most = int(os.environ.get("FAKE_ANSWERS", "0"))
        if most and answers > most and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("FAKE_HANGS"):
            (folder / "asked").touch()
            time.sleep(600)
        message = {{"role": "assistant", "content": "4"}}
        choice = {{"index": 0, "finish_reason": "stop", "message": message, "text": "4"}}
        self.reply({{"choices": [choice], "usage": {{"prompt_tokens": 1, "completion_tokens": 1}}}})

    def reply(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


at = dict(zip(arguments, arguments[1:]))
server = http.server.ThreadingHTTPServer((at["--host"], int(at["--port"])), Handler)
print("INFO: Application startup complete.", flush=True)
server.serve_forever()
"""


def install(name: str = "vllm") -> None:
    """Install the fake in place of a runner, below XDG_DATA_HOME."""
    kind = KINDS[name]
    folder = data_folder() / name / "fake"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    program = folder / "bin" / "vllm"
    program.write_text(PROGRAM.format(python=Path(sys.executable).resolve()))
    program.chmod(0o755)
    write(Environment(name, "cpu", str(folder), lock_digest(kind, "cpu"), "0.0", {}), data_folder())


def make_model(folder: Path) -> Path:
    """A folder that looks like a model of the Hugging Face form."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"dtype": "float32"}))
    (folder / "model.safetensors").write_bytes(b"12345678")
    return folder
