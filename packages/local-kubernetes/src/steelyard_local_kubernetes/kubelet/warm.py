"""Programs forked from an interpreter that has imported what they need: an interpreter's start with numpy, pyarrow and
pydantic costs more than most steps' work.

Who starts the kubelet names the programs (`WarmModules`). The template is a fork server of shims like `forks.py`, run
by the platform's own Python. A shim of its making goes the
same way as any other to the place where the container's program would be executed; there `become` takes the role of
exec: it undoes what an exec would undo, and the module runs in the forked interpreter. Whatever does not fit is
executed. Standard library only, until `main` imports the modules.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import os
import runpy
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import forks, init, shim


@dataclass(frozen=True)
class WarmModules:
    """Programs that are forked from an interpreter which has imported what they need; with none, all are executed."""

    programs: frozenset[str] = frozenset()
    """Modules that containers run as `python -m`. They end by themselves, and use modules imported before."""
    imported: tuple[str, ...] = ()
    """Modules that they import; never one of the programs, which is `__main__` and begins with the process."""


ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "TMPDIR": "/tmp"}
"""Variables that are read early and that every step has: the first two of the kubelet, the last of the operator."""
EARLY = (
    *(
        "PYTHON",
        "_PYTHON",
        "__PYVENV",
        "LC_",
        "LANGUAGE",
        "TZ",
        "LD_",
        "GLIBC_",
        "MALLOC_",
        "GCONV_",
        "LOCPATH",
    ),
    *(
        "OMP_",
        "KMP_",
        "GOMP_",
        "GOTO_",
        "OPENBLAS_",
        "MKL_",
        "BLIS_",
        "NPY_",
        "NUMPY_",
        "NUMEXPR_",
        "GFORTRAN_",
    ),
    *("ARROW_", "PYARROW_", "JE_", "MIMALLOC_", "PYDANTIC_", "OPENSSL_", "SSL", "AZURE_LOG"),
    *("SQLITE_", "TMPDIR"),  # SQLite asks once
    *("MULTIDICT_", "YARL_", "PROPCACHE_", "FROZENLIST_", "AIOHTTP_"),
)
"""Beginnings of variables that an interpreter or a library reads when it starts: a fork would come too late."""

IDLE_SECONDS = 300.0  # a template that is not used gives its memory back
READY = b"ready"
ARGUMENTS, VARIABLES = 8192, 65536  # bytes that /proc can show of a step's command line and environment
ROOM_VARIABLE = "STEELYARD_ROOM"
_PR_SET_DUMPABLE, _PR_GET_SECUREBITS = 4, 27
_CAPABILITIES_3 = 0x20080522
_PLACES_AT = (
    45  # fields of /proc/PID/stat from here: begin and end of arguments, begin and end of environment
)


def fits(intent: Mapping[str, Any], python: str, programs: Set[str]) -> bool:
    """Return whether a run is one of the programs in this very Python, and needs nothing that only a new
    interpreter can do.
    """
    argv, env = intent["argv"], intent["env"]
    if len(argv) < 3 or argv[:2] != [python, "-m"]:
        return False
    # The address: its calls of bind are followed by a listener that an exec closes.
    if argv[2] not in programs or intent.get("address"):
        return False
    if len(_join(argv)) >= ARGUMENTS or len(_join(_variables(env))) >= VARIABLES:
        return False
    early = {key: value for key, value in env.items() if key.startswith(EARLY) or key == "LANG"}
    return early == ENVIRONMENT


def _join(texts: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)


def _variables(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


class Places:
    """Memory of this process, and of its forks, that /proc shows as command line and environment."""

    def __init__(self) -> None:
        fields = processes.stat_fields(os.getpid())
        assert fields is not None
        begin, end, env_begin, env_end = (int(field) for field in fields[_PLACES_AT : _PLACES_AT + 4])
        self.arguments, self.environment = (begin, end - begin), (env_begin, env_end - env_begin)
        if self.arguments[1] <= ARGUMENTS or self.environment[1] <= VARIABLES:
            raise OSError("no room for the arguments and variables of steps")

    def show(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Show these instead; the environment's place may be written only once nothing refers to it."""
        _write(self.arguments, _join(argv))
        if env is not None:
            # A killed shim's strays are known by a variable in /proc alone.
            _write(self.environment, _join(_variables(env)))


def _write(place: tuple[int, int], text: bytes) -> None:
    # The last byte stays 0: by another one the kernel takes what follows for a part of it.
    ctypes.memmove(place[0], text.ljust(place[1], b"\0"), place[1])


class Template:
    """The interpreter that steps are forked from, as it was when it had imported everything."""

    def __init__(self, programs: Set[str]) -> None:
        self.python, self.programs = sys.orig_argv[0], programs
        self.places = Places()
        self.sources = _sources()

    def is_stale(self) -> bool:
        """Return whether a new interpreter would load other code, or a thread would not live on in a fork."""
        return self.sources != _sources() or len(os.listdir("/proc/self/task")) != 1

    def show_shim(self, path: str) -> None:
        """Show the command line of a shim with an interpreter of its own: `steelyard down` knows shims by it."""
        self.places.show([self.python, "-I", "-S", "-c", "shim", path, "3"])

    def execute(self, intent: dict[str, Any]) -> None:
        """Take the role of exec in a container's child; it returns where a new interpreter has to be executed."""
        # `-m` searches the working folder for modules first; what lies there could come before ours.
        own = any(name.partition(".")[0].isidentifier() for name in os.listdir("."))
        if (
            own
            or not fits(intent, self.python, self.programs)
            or _libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0) != 0
        ):
            return
        drop_capabilities()
        # Last what cannot be undone: the shim takes the end of its pipe for the program's begin.
        init.close_all_but({0, 1, 2})
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does at its start
            signal.signal(number, signal.SIG_IGN)
        # Objects that hold os.environ keep it: its content changes, not the object.
        os.environ.clear()
        os.environ.update(intent["env"])
        self.places.show(intent["argv"], intent["env"])
        raise shim.Become(intent["argv"])


def _sources() -> dict[str, tuple[int, int]]:
    """Stamps of every loaded file, and of the folders in which others are looked for: a new package changes these."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    stamps = {}
    for path in {*files, *sys.path} - {None, ""}:
        try:
            status = os.stat(str(path))
        except OSError:
            continue
        stamps[str(path)] = (status.st_mtime_ns, status.st_size)
    return stamps


_libc = ctypes.CDLL(None, use_errno=True)


def drop_capabilities() -> None:
    """Have the capabilities that an exec would leave: none but the ambient ones, unless we are root; and be readable
    to our own user, as programs are.
    """
    if os.geteuid() != 0:
        with open("/proc/self/status") as file:
            masks = {line.split()[0]: int(line.split()[1], 16) for line in file if line.startswith("Cap")}
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
        sets = (masks["CapAmb:"], masks["CapAmb:"], masks["CapInh:"])
        words = [mask >> shift & 0xFFFFFFFF for shift in (0, 32) for mask in sets]
        if _libc.capset(header, (ctypes.c_uint32 * 6)(*words)) != 0:
            raise OSError(ctypes.get_errno(), "capset")
    # Without it /proc/PID/environ would be root's, and a killed shim's strays would not be found.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _main_module(old: ModuleType) -> ModuleType:
    """Make the module that the step's code becomes; with names as an interpreter gives them."""
    module = ModuleType("__main__")
    for name in ("__annotations__", "__builtins__", "__loader__"):
        if hasattr(old, name):
            setattr(module, name, getattr(old, name))
    return module


def _flush_files() -> None:
    """Write out what an interpreter's end would: a file that a frozen object holds is not closed by it.

    To unfreeze them and have everything collected would copy all their pages, at more than the rest of a fork costs.
    """
    for thing in gc.get_objects():
        # By its type: to ask a proxy for its class could run code of others.
        if (
            issubclass(type(thing), io.BufferedWriter | io.BufferedRandom | io.TextIOWrapper)
            and not thing.closed
        ):
            with contextlib.suppress(OSError, ValueError):
                thing.flush()


def load(modules: Iterable[str]) -> None:
    """Import the modules, and end the threads that they began: a fork has only its own."""
    # pyarrow starts a thread for an allocator that it does not use by default; it reads this when it is loaded.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    for module in modules:
        importlib.import_module(module)
    # OpenBLAS ends its threads before a fork, and begins them when they are next needed.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def command(python: str, warm: WarmModules) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of a template, with room for those of its steps."""
    # Not isolated, since steps are not; but the folder that the kubelet was started in must not be searched.
    words = f"{sorted(warm.programs)!r}, {warm.imported!r}"
    text = f"import sys; del sys.path[0]; from steelyard_local_kubernetes.kubelet import warm; warm.main({words})"
    argv = [python, "-c", text, " " * ARGUMENTS]
    path = f"{os.path.dirname(python)}:{os.defpath}"
    return argv, {"PATH": path, "HOME": "/", **ENVIRONMENT, ROOM_VARIABLE: " " * VARIABLES}


def main(programs: Iterable[str], modules: Iterable[str]) -> None:
    """Serve requests from descriptor 3 as `forks.main` does; in a fork that is to be a step, run it."""
    connection = socket.socket(fileno=3)
    connection.set_inheritable(False)
    connection.settimeout(IDLE_SECONDS)
    # SQLite for one keeps where it found TMPDIR: setenv copies a variable out of the place that steps write theirs to.
    for name, value in list(os.environ.items()):
        os.environ[name] = value
    load(modules)
    template = Template(frozenset(programs))
    if template.is_stale():
        print("steps are not forked: their modules have started threads", file=sys.stderr, flush=True)
        return
    connection.send(READY)
    try:
        forks.serve(connection, template)
        return
    except TimeoutError:
        return
    except shim.Become as program:
        argv = program.argv
    # Nothing of the shim is left on the stack; from here on as `python -m` does.
    connection.close()
    sys.orig_argv[:], sys.argv[:] = argv, ["-m", *argv[3:]]
    sys.path.insert(0, os.getcwd())
    sys.modules["__main__"] = _main_module(sys.modules["__main__"])
    atexit.register(_flush_files)  # registered first, so called last
    runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]
