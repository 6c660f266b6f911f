"""Forked steps: they are what executed ones are, and nothing depends on the template's life."""

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.local.warm_modules import WARM_MODULES
from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import warm
from steelyard_local_kubernetes.kubelet.records import LOST, PodFolder
from steelyard_local_kubernetes.kubelet.shim_processes import ForkServer, ShimProcess, StepTemplate
from tests.kubelet.test_adoption import ROOT

PROBE = """
import atexit, ctypes, gc, json, locale, os, random, resource, signal, sys, threading, time
import numpy, pyarrow
how = sys.argv[1]
def allowed(action):
    try: return action()
    except OSError as error: return error.errno
def temporary_folder():
    import sqlite3
    database = sqlite3.connect("")
    database.execute("pragma cache_size = 1")
    database.execute("pragma cache_spill = 1")
    database.execute("create table t (x)")
    database.execute("begin")
    database.executemany("insert into t values (?)", [("x" * 4000,) for _ in range(50)])
    opened = ["/proc/self/fd/" + fd for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in opened if os.path.lexists(path)]
    return sorted(os.path.dirname(link) for link in links if "etilqs" in link)
if how == "show":
    status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    none = b"\\0"
    print(json.dumps({
        "argv": sys.argv[1:], "orig_argv": sys.orig_argv[-2:], "file": __file__, "name": __name__,
        "package": __package__, "loader": type(__loader__).__name__,
        "globals": sorted(n for n in globals() if n.startswith("__")),
        "executable": sys.executable, "prefix": sys.prefix, "path": sys.path, "flags": str(sys.flags),
        "warnoptions": sys.warnoptions, "stdio": [repr(f) for f in (sys.stdin, sys.stdout, sys.stderr)],
        "unbuffered": [sys.stdout.write_through, sys.stdout.line_buffering, sys.stderr.line_buffering],
        "locale": locale.setlocale(locale.LC_ALL), "encodings": [sys.getfilesystemencoding(), locale.getencoding()],
        "environ": dict(os.environ), "getenv": ctypes.CDLL(None).getenv(b"STEELYARD_ROOM"),
        "proc environ": sorted(x.decode() for x in open("/proc/self/environ", "rb").read().split(none) if x),
        "proc cmdline": [x.decode() for x in open("/proc/self/cmdline", "rb").read().split(none) if x][-2:],
        "comm": open("/proc/self/comm").read(), "exe": os.readlink("/proc/self/exe"),
        "cwd": os.getcwd(), "umask": status["Umask"], "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "kernel threads": int(status["Threads"]),
        "threads": [threading.active_count(), threading.current_thread() is threading.main_thread()],
        "signals": {key: status[key] for key in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")},
        "wakeup": signal.set_wakeup_fd(-1), "sigint": str(signal.getsignal(signal.SIGINT)),
        "caps": {key: status[key] for key in status if key.startswith("Cap")},
        "privileges": [status["NoNewPrivs"], status["Seccomp"]],
        "proc owner": [os.stat("/proc/self/" + name).st_uid for name in ("environ", "fd", "mem")],
        "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
        "death": (lambda v: (ctypes.CDLL(None).prctl(2, ctypes.byref(v), 0, 0, 0), v.value)[1])(ctypes.c_int()),
        "limits": [resource.getrlimit(n) for n in range(16)], "nice": os.nice(0), "tty": stat[4],
        "leader": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "oom": open("/proc/self/oom_score_adj").read(), "affinity": sorted(os.sched_getaffinity(0)),
        "descriptors": sorted((fd, os.readlink(f"/proc/self/fd/{fd}").split(":")[0])
                              for fd in "012345678" if os.path.lexists(f"/proc/self/fd/{fd}")),
        "namespaces": [allowed(lambda: os.readlink(f"/proc/self/ns/{n}") == os.readlink(f"/proc/{os.getppid()}/ns/{n}"))
                       for n in ("mnt", "pid", "user", "uts")],
        "may": allowed(lambda: os.chroot("/")),
        "parent": open(f"/proc/{os.getppid()}/comm").read(), "cgroup": open("/proc/self/cgroup").read(),
        "gc": [gc.isenabled(), gc.get_threshold()], "recursion": sys.getrecursionlimit(),
        "pool": pyarrow.default_memory_pool().backend_name, "processors": pyarrow.cpu_count(),
        "sqlite": temporary_folder(),
        "few seconds": time.process_time() < 5, "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime,
    }))
elif how == "random":
    import uuid, ssl, tempfile
    print(json.dumps([random.random(), float(numpy.random.rand()), uuid.uuid4().hex, ssl.RAND_bytes(8).hex(),
                      numpy.random.default_rng().integers(1 << 60).item(), next(tempfile._get_candidate_names())]))
elif how == "works":
    table = pyarrow.table({"a": list(range(100000))})
    big = numpy.ones((600, 600))
    done = []
    worker = threading.Thread(target=lambda: done.append(float((big @ big).sum()))); worker.start(); worker.join()
    import asyncio
    async def later(): return await asyncio.to_thread(lambda: 7)
    import multiprocessing
    rows = table.group_by("a").aggregate([]).num_rows
    print(json.dumps([rows, done[0], asyncio.run(later()), os.cpu_count() is not None]))
else:
    atexit.register(lambda: print("at exit"))
    left = open("left", "w"); left.write("flushed")
    json.held = open("held", "wb"); json.held.write(b"flushed")
    def end():
        if how == "number": sys.exit(3)
        if how == "none": return
        if how == "text": sys.exit("words")
        if how == "error": raise ValueError("wrong")
        if how == "interrupt": raise KeyboardInterrupt
        if how == "thread":
            threading.Thread(target=lambda: (time.sleep(0.05), print("thread ended"))).start(); return
        if how == "wait": print("up"); time.sleep(300)
        if how == "stray":
            if os.fork() == 0: os.setsid()
            print("up"); time.sleep(300)
        os.kill(os.getpid(), getattr(signal, how)); time.sleep(5)
    end()
"""
STEPS = """
import sys; del sys.path[0]
import steelyard.steps; steelyard.steps.__path__.append(%r)
from steelyard_local_kubernetes.kubelet import warm
from steelyard.local.warm_modules import WARM_MODULES
warm.main(WARM_MODULES.programs | {"steelyard.steps.probe"}, WARM_MODULES.imported)
"""
WITH_PROBE = replace(WARM_MODULES, programs=WARM_MODULES.programs | {"steelyard.steps.probe"})


class ProbeTemplate(StepTemplate):
    """A template to which the probe is a step, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sys.executable, WITH_PROBE)
        argv, environment = warm.command(sys.executable, WITH_PROBE)
        argv[2] = STEPS % str(folder)
        self.command = (argv, environment)


class Runs:
    """Runs of the probe, forked from the template or executed."""

    def __init__(self, folder: Path, modules: Path, template: ProbeTemplate) -> None:
        self.folder, self.modules, self.template = folder, modules, template
        self.forked, self.executed = ForkServer(sys.executable, self.template), ForkServer(sys.executable)
        self.count = 0

    async def ready(self) -> None:
        async with asyncio.timeout(60):
            while not self.template.answers():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def make_intent(self, *words: str, own: bool = False, **env: str) -> Path:
        folder = self.folder / f"pod/{self.count}"
        self.count += 1
        home = self.folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        folder.mkdir(parents=True)
        path = folder / "0.json"
        intent = {
            "argv": [sys.executable, "-m", "steelyard.steps.probe", *words],
            "env": {"PATH": os.defpath, "HOME": str(home), **warm.ENVIRONMENT, "EMPTY": "", **env},
            "cwd": str(home),
            "mounts": [] if own else None,
            "pids": own,
            "hostname": "probe" if own else "",
            "keep": [],
            "scratch": str(folder),
            "lease": str(folder),
            "leaseSeconds": 300,
            "messagePolicy": "File",
        }
        path.write_text(json.dumps(intent))
        return path

    async def run(self, *words: str, executed: bool = False, **fields: Any) -> tuple[dict[str, Any], str]:
        """The record of the end, and the log."""
        intent = self.make_intent(*words, **fields)
        if executed:
            # As a step of this package it would not be found: the same module, by the same way.
            text = json.loads(intent.read_text())
            load = f"import sys; import steelyard.steps as s; s.__path__.append({str(self.modules)!r}); "
            load += "import runpy, os; sys.path[0] = os.getcwd(); "
            load += "sys.argv[:] = ['-m', *sys.argv[1:]]; del s; runpy._run_module_as_main('steelyard.steps.probe')"
            text["argv"] = [sys.executable, "-c", load, *words]
            intent.write_text(json.dumps(text))
            child = self.executed.start(intent, lambda: None)
        else:
            await self.ready()
            started = self.template.launch(intent)
            assert started is not None
            child = started.watch(lambda: None)
        await ended(child)
        return result(intent)


def result(intent: Path) -> tuple[dict[str, Any], str]:
    lines = intent.with_suffix(".log").read_text().splitlines()
    text = "\n".join(line.split(" ", 3)[3] for line in lines)
    return json.loads(intent.with_suffix(".exited").read_text()), text


async def ended(child: ShimProcess) -> None:
    async with asyncio.timeout(60):
        while not child.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the probe's module."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "probe.py").write_text(PROBE)
    return folder


@pytest.fixture(scope="module")
def lasting(modules: Path) -> Iterator[ProbeTemplate]:
    """A template for tests that leave it as it is: its imports take longer than they do."""
    template = ProbeTemplate(modules)
    yield template
    template.close()


@pytest.fixture
def shared(tmp_path: Path, modules: Path, lasting: ProbeTemplate) -> Iterator[Runs]:
    """Runs of a template that other tests use, too."""
    made = Runs(tmp_path, modules, lasting)
    yield made
    made.forked.close_connection()
    made.executed.close()


@pytest.fixture
def runs(tmp_path: Path, modules: Path) -> Iterator[Runs]:
    """Runs of a template of the test's own, which it may end."""
    made = Runs(tmp_path, modules, ProbeTemplate(modules))
    yield made
    made.forked.close()
    made.executed.close()


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.pids)])
async def test_a_forked_step_finds_what_an_executed_one_finds(
    own: bool, shared: Runs, tmp_path: Path
) -> None:
    _, executed = await shared.run("show", "a b", executed=True, own=own)
    _, forked = await shared.run("show", "a b", own=own)
    observed, expected = json.loads(forked), json.loads(executed)
    # Importing begins threads of libraries; in a fork they begin when they are first needed.
    assert observed.pop("kernel threads") == 1
    assert expected.pop("kernel threads") >= 1
    assert observed == expected


async def test_every_fork_has_random_numbers_of_its_own(shared: Runs) -> None:
    first, second = [json.loads((await shared.run("random"))[1]) for _ in range(2)]
    assert [a == b for a, b in zip(first, second, strict=True)] == [False] * len(first)


async def test_threads_and_arrays_work_in_a_fork(shared: Runs) -> None:
    assert json.loads((await shared.run("works"))[1]) == [100000, 600.0**3, 7, True]


@pytest.mark.parametrize(
    ("how", "code", "number", "said"),
    [
        ("none", 0, 0, "at exit"),
        ("number", 3, 0, "at exit"),
        ("text", 1, 0, "words"),
        ("error", 1, 0, "ValueError: wrong"),
        ("interrupt", 130, 2, "KeyboardInterrupt"),
        ("thread", 0, 0, "thread ended"),
        ("SIGTERM", 143, 15, ""),
        ("SIGKILL", 137, 9, ""),
        ("SIGSEGV", 139, 11, ""),
    ],
)
async def test_it_ends_as_an_executed_one(how: str, code: int, number: int, said: str, shared: Runs) -> None:
    home = shared.folder / "home"
    ends = []
    for executed in (True, False):
        end, log = await shared.run(how, executed=executed)
        files = {(home / name).read_text() for name in ("left", "held")}
        ends.append((end["exitCode"], end["signal"], said in log, files))
    assert ends == [(code, number, True, {"" if how.startswith("SIG") else "flushed"})] * 2


async def test_without_the_template_steps_are_executed_and_it_is_begun_again(runs: Runs) -> None:
    real = runs.make_intent()
    intent = json.loads(real.read_text()) | {
        "argv": [sys.executable, "-m", "steelyard.steps.run_report", "--help"]
    }
    real.write_text(json.dumps(intent))
    await ended(runs.forked.start(real, lambda: None))  # it has only begun the template
    assert "usage:" in result(real)[1]
    await runs.ready()
    before = runs.template.pid
    os.kill(before, signal.SIGKILL)
    again = runs.make_intent()
    again.write_text(json.dumps(intent))
    await ended(runs.forked.start(again, lambda: None))
    assert "usage:" in result(again)[1]
    await runs.ready()
    assert runs.template.pid != before
    assert "EMPTY" in (await runs.run("show"))[1]


async def test_changed_code_ends_the_template(runs: Runs) -> None:
    await runs.ready()
    before = runs.template.pid
    (runs.modules / "probe.py").touch()  # not loaded by it
    assert "EMPTY" in (await runs.run("show"))[1]
    site = next(path for path in sys.path if path.endswith("site-packages"))
    status = os.stat(site)
    os.utime(site, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    try:
        assert runs.template.launch(runs.make_intent("show")) is None
        await runs.ready()
        assert runs.template.pid != before
    finally:
        os.utime(site, ns=(status.st_atime_ns, status.st_mtime_ns))


async def test_modules_next_to_it_need_a_new_interpreter(shared: Runs) -> None:
    await shared.ready()
    intent = shared.make_intent("show")
    (shared.folder / "home/numpy.py").write_text("print('another numpy'); raise SystemExit(9)")
    started = shared.template.launch(intent)
    assert started is not None
    await ended(started.watch(lambda: None))
    assert result(intent)[0]["exitCode"] == 1  # `python -m` executed; to it the probe is no step


async def logged(intent: Path, text: str, *, times: int = 1) -> None:
    """Wait until the container's log has the text so many times."""
    log = intent.with_suffix(".log")
    async with asyncio.timeout(30):
        while not log.exists() or log.read_text().count(text) < times:  # noqa: ASYNC110 (a file tells nobody)
            await asyncio.sleep(0.01)


async def test_a_killed_shim_takes_the_step_along_and_strays_are_known(shared: Runs) -> None:
    await shared.ready()
    marker = f"STEELYARD_CONTAINER={shared.folder / 'pod/0/0'}"
    intent = shared.make_intent("stray", STEELYARD_CONTAINER=marker.partition("=")[2])
    started = shared.template.launch(intent)
    assert started is not None
    child = started.watch(lambda: None)
    await logged(intent, "up", times=2)
    assert processes.with_argument(f"{shared.folder}/") == {child.pid}
    strays = processes.with_environment(marker)
    assert len(strays) == 2
    os.kill(child.pid, signal.SIGKILL)
    await ended(child)
    run = PodFolder(shared.folder / "pod").run("0")
    assert run is not None
    assert run.reason == LOST
    async with asyncio.timeout(60):
        while len(left := processes.with_environment(marker)) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)


async def test_a_running_step_outlives_the_template(runs: Runs) -> None:
    await runs.ready()
    intent = runs.make_intent("wait")
    started = runs.template.launch(intent)
    assert started is not None
    child = started.watch(lambda: None)
    runs.template.close()
    await logged(intent, "up")
    child.send(signal.SIGTERM)
    await ended(child)
    assert result(intent)[0]["exitCode"] == 143


SERVE = """
import sys, time
from steelyard_local_kubernetes.kubelet.shim_processes import StepTemplate
from steelyard.local.warm_modules import WARM_MODULES
template = StepTemplate(sys.executable, WARM_MODULES)
while not template.answers(): time.sleep(0.01)
print(template.pid, flush=True); time.sleep(60)
"""


def test_the_template_ends_with_its_kubelet() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVE], cwd=ROOT, stdout=subprocess.PIPE) as kubelet:
        assert kubelet.stdout is not None
        template = os.pidfd_open(int(kubelet.stdout.readline()))
        kubelet.kill()
    ends, _, _ = select.select([template], [], [], 10)
    os.close(template)
    assert ends


LOADED = """
import os, sys
names = set()
class Watched(type(os.environ)):
    def __getitem__(self, key): names.add(key); return super().__getitem__(key)
    def __contains__(self, key): names.add(key); return super().__contains__(key)
    def get(self, key, default=None): names.add(key); return super().get(key, default)
os.environ.__class__ = Watched
from steelyard_local_kubernetes.kubelet import warm
from steelyard.local.warm_modules import WARM_MODULES
warm.load(WARM_MODULES.imported)
for shown in (names, sys.modules, os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")):
    print(*sorted(shown))
"""
TRACER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
static void say(const char *name) { write(2, "@", 1); write(2, name, strlen(name)); write(2, "\\n", 1); }
typedef char *(*lookup)(const char *);
char *getenv(const char *name) { say(name); return ((lookup)dlsym(RTLD_NEXT, "getenv"))(name); }
char *secure_getenv(const char *name) { say(name); return ((lookup)dlsym(RTLD_NEXT, "secure_getenv"))(name); }
"""
HARMLESS = {"PATH", "HOME", "XDG_CONFIG_HOME", "container"}
"""Read while modules are imported, without an effect on steps."""


def test_whatever_is_read_from_the_environment_at_imports_asks_for_a_new_interpreter(tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), **warm.ENVIRONMENT}
    if compiler := shutil.which("cc"):
        (tmp_path / "tracer.c").write_text(TRACER)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", "tracer.so", "tracer.c", "-ldl"],
            cwd=tmp_path,
            check=True,
            stderr=subprocess.PIPE,
        )
        environment["LD_PRELOAD"] = str(tmp_path / "tracer.so")
    run = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True
    )
    names, modules, threads, descriptors = (line.split() for line in run.stdout.splitlines())
    read = {*names, *(line[1:] for line in run.stderr.splitlines() if line.startswith("@"))}
    assert "PYARROW_IGNORE_TIMEZONE" in read
    late = {name for name in read - HARMLESS if name != "LANG" and not name.startswith(warm.EARLY)}
    assert late == set()
    assert not WARM_MODULES.programs & {*modules}, "each is __main__ when it runs"
    assert "numpy.random" not in modules, "its numbers would be the same in each fork"
    assert len(threads) == 1
    assert set(descriptors) <= {"0", "1", "2", "3"}, "a library's descriptor would be closed in forks"


STEP_BY_STEP = """
import importlib, json, os, sys
from steelyard_local_kubernetes.kubelet import warm
from steelyard.local.warm_modules import WARM_MODULES
warm.load(WARM_MODULES.imported)
known, imported = set(sys.modules), {}
for step in sorted(WARM_MODULES.programs):
    reader, writer = os.pipe()
    if os.fork() == 0:
        importlib.import_module(step)
        os.write(writer, json.dumps(sorted(set(sys.modules) - known)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        imported[step] = answer.read()
    os.wait()
print(json.dumps(imported))
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, str]:
    """The modules that each step adds to those of the template: a list in JSON, or nothing where it failed."""
    run = subprocess.run([sys.executable, "-c", STEP_BY_STEP], capture_output=True, text=True, check=True)
    by_step: dict[str, str] = json.loads(run.stdout)
    return by_step


@pytest.mark.parametrize("step", sorted(WARM_MODULES.programs))
def test_the_template_has_what_steps_import(step: str, imported: dict[str, str]) -> None:
    names = json.loads(imported[step])
    assert step in names
    assert {name for name in names if name.startswith(("steelyard", "pydantic", "pyarrow", "numpy"))} <= (
        WARM_MODULES.programs
    )
