"""The program between the kubelet and one container: starts it at most once, outlives the kubelet, records all.

`python -I -S -c 'from steelyard_local_kubernetes.kubelet import shim; shim.main()' INTENT` with the kubelet's intent
file `<pods>/<uid>/<container>/<n>.json`. Next to it the shim keeps `<n>.lock` (held while it lives), `<n>.started`
(before the container's program runs), `<n>.log`, `<n>.exited` (before the shim ends). Standard library only.

SIGTERM is passed on to the container's process group; SIGUSR2 kills the container's whole tree. Where the kernel
allows it the container has process numbers of its own, and number 1 is `init.py`'s.
"""

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import init, splice

BUSY = 75  # another shim holds the lock
NO_ROOM = 74  # nothing was started: the disk is full
ROOM_SECONDS = 0.5  # before a repeat
FULL = (errno.ENOSPC, errno.EDQUOT)
SOURCE = os.path.abspath(__file__).rpartition("/steelyard_local_kubernetes/kubelet/")[0]
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a container without an image's own programs."""
CHECKOUT = (
    SOURCE.removesuffix("/packages/local-kubernetes/src") if SOURCE.endswith("/local-kubernetes/src") else ""
)
"""Root of the repository; empty where all packages are installed in one folder."""
CODE = (f"{CHECKOUT}/src", f"{CHECKOUT}/packages") if CHECKOUT else (SOURCE,)
"""Folders with the code of all our packages, which is in every container's sight."""
OWN_PYTHON = "STEELYARD_PYTHON"
"""Variable with Steelyard's own Python, which is in every container's sight."""
LINE = 16384  # longer lines are cut into partial ones, as container runtimes do
MOUNTS = "STEELYARD_MOUNTS"
"""Name of a container's variable: JSON, where the folders of mount paths are where mounts are not to be had."""
_SIGNALS = (signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD)


def write_whole(path: str, content: dict[str, Any]) -> None:
    """Write a record as JSON; it is there whole or not at all."""
    write_bytes(path, json.dumps(content).encode())


def write_bytes(path: str, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a power loss."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:  # on a full disk the little that was written is room, too
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # A rename survives a power loss only once its folder is on the disk, too.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def read_intent(path: str, python: str = sys.executable) -> dict[str, Any]:
    """Read the intent to run a container, and complete it by what only the installation that runs it knows.

    An intent outlives its installation: where the container runs in our own Python, the file does not name it.
    """
    with open(path, "rb") as file:
        intent: dict[str, Any] = json.loads(file.read())
    if "ownPython" not in intent:
        return intent  # of an earlier version, which wrote everything down
    argv, env, keep = intent["argv"], intent["env"], [*intent["keep"], *CODE, sys.base_prefix]
    if intent["ownPython"]:
        env = {"PATH": f"{os.path.dirname(python)}:{PROGRAMS}", **env}
        keep += [os.path.dirname(os.path.dirname(file)) for file in (python, os.path.realpath(python))]
        if argv and argv[0] in ("python", "python3"):
            argv = [python, *argv[1:]]
    return {**intent, "argv": argv, "env": {**env, OWN_PYTHON: python}, "keep": keep}


def nanoseconds_text(moment: int) -> str:
    """A time as RFC 3339 with nanoseconds, UTC."""
    seconds, rest = divmod(moment, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def cri_lines(stream: str, text: bytes, moment: int) -> tuple[bytes, bytes]:
    """The log lines for what a container wrote, and the unfinished line at its end."""
    head = f"{nanoseconds_text(moment)} {stream} ".encode()
    *whole, rest = text.split(b"\n")
    lines = []
    for line in whole:
        last = len(line) - (len(line) - 1) % LINE - 1 if line else 0
        lines += [head + b"P " + line[at : at + LINE] + b"\n" for at in range(0, last, LINE)]
        lines.append(head + b"F " + line[last:] + b"\n")
    while len(rest) >= LINE:
        lines.append(head + b"P " + rest[:LINE] + b"\n")
        rest = rest[LINE:]
    return b"".join(lines), rest


class Output:
    """Copies the container's two streams into its log."""

    def __init__(self, log: str) -> None:
        self.attached: Any = None  # of a container that has callers, `attach.Attached`
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.streams: dict[int, str] = {}
        self.rest: dict[int, bytes] = {}
        self.lost = 0  # lines that found no room, and of which the log does not say so yet
        self._torn = False  # the log ends within a line

    def add(self, fd: int, stream: str) -> None:
        os.set_blocking(fd, False)
        self.streams[fd], self.rest[fd] = stream, b""

    def copy(self, fd: int) -> None:
        """Copy what can be read; a stream that has ended is dropped."""
        try:
            read = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError as problem:
            if problem.errno != errno.EIO:
                raise
            read = b""  # a terminal that no process holds any more
        if self.attached is not None and read:
            self.attached.show(self.streams[fd], read)
        lines, rest = cri_lines(self.streams[fd], self.rest[fd] + read, time.time_ns())
        if not read:
            if rest:
                lines += f"{nanoseconds_text(time.time_ns())} {self.streams[fd]} P ".encode() + rest + b"\n"
            del self.streams[fd], self.rest[fd]
            os.close(fd)
        else:
            self.rest[fd] = rest
        self.append(lines)

    def append(self, lines: bytes) -> None:
        """Write lines to the log. On a full disk they are lost, since the container must not hang for it.

        Once there is room again, the log says how many they were.
        """
        notice = self._notice()
        text, written = notice + lines, 0
        try:
            while written < len(text):
                written += os.write(self.log, text[written:])
        except OSError:
            if written:
                self._torn = text[written - 1 : written] != b"\n"
            if written >= len(notice):
                self.lost = 0
            self.lost += text[max(written, len(notice)) :].count(b"\n")
        else:
            self.lost, self._torn = 0, False

    def _notice(self) -> bytes:
        if not self.lost:
            return b"\n" if self._torn else b""
        said = f"steelyard: {self.lost} lines of this log were lost: the disk had no room"
        end = "\n" if self._torn else ""
        return f"{end}{nanoseconds_text(time.time_ns())} stderr F {said}\n".encode()

    def drain(self, seconds: float) -> None:
        """The rest, once no process of the container is left to write more."""
        end = time.monotonic() + seconds
        while self.streams and (left := end - time.monotonic()) > 0:
            for fd in select.select(list(self.streams), [], [], left)[0]:
                self.copy(fd)


class Lease:
    """Lease of `up`: valid while it is renewed, by a clock that stands still while the machine sleeps."""

    def __init__(self, path: str, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self.last, self.seen = self._renewal_time(), time.monotonic()

    def _renewal_time(self) -> int:
        try:
            return os.stat(self.path).st_mtime_ns
        except OSError:
            return 0

    def expired(self) -> bool:
        # The file's time is only compared with itself: the clock that it was written by may be set at any time.
        if (renewed := self._renewal_time()) != self.last:
            self.last, self.seen = renewed, time.monotonic()
        return time.monotonic() - self.seen > self.seconds


class Become(BaseException):
    """Raised in a container's child that goes on as the program itself, in the interpreter it was forked from."""

    def __init__(self, argv: list[str]) -> None:
        super().__init__()
        self.argv = argv


Execute = Callable[[dict[str, Any]], None] | None
"""Attempt to take the role of exec for an intent: raises `Become`, or returns where the program is to be executed.
None: it always is.
"""


class Container:
    """One run of a container's program, from fork to exit record."""

    def __init__(self, intent: dict[str, Any], base: str, execute: Execute = None) -> None:
        self.intent, self.base, self.execute = intent, base, execute
        self.output = Output(f"{base}.log")
        self.lease = Lease(intent["lease"], intent["leaseSeconds"])
        self.pid = 0  # of the program, or of number 1 above it
        self.ended = -1  # where number 1 says how the program ended
        self.status: int | None = None
        self.reason = ""
        self.started_at = ""

    def start(self) -> str:
        """Fork, record, let go; the answer says why the program did not start, if it did not."""
        terminal = os.openpty() if self.intent.get("tty") else None
        # What is written to a terminal has one order, and one stream.
        streams = [terminal] if terminal else [os.pipe(), os.pipe()]
        stdin = os.pipe() if self.intent.get("stdin") and not terminal else None
        go, error = os.pipe(), os.pipe()
        asks = os.pipe() if self.intent.get("address") else None
        numbers = (os.pipe(), os.pipe()) if self.intent.get("pids") else None
        # A signal that comes to the child before it has reset its handlers
        # would be remembered where it is never read.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        direct = numbers is not None and splice.number_child()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(go[1])
            pipes = Pipes(
                streams,
                stdin and stdin[0],
                go[0],
                error[1],
                asks and asks[1],
                numbers and (numbers[0][1], numbers[1][1]),
                direct,
            )
            if stdin:
                os.close(stdin[1])  # else the program would never see the end of its input
            run_program(self.intent, pipes, self.execute)
        if direct:
            splice.undo_number_child()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for (read, write), name in zip(streams, ("stdout", "stderr"), strict=False):
            os.close(write)
            self.output.add(read, name)
        self.take_callers(stdin, terminal and terminal[0])
        os.close(go[0])
        os.close(error[1])
        if numbers:
            self.follow_init(*numbers, direct=direct)
        self.started_at = nanoseconds_text(time.time_ns())
        # Before the child may go on: whatever dies next, a program that has
        # begun is on record and is not begun again.
        write_whole(f"{self.base}.started", self.record())
        problem = self.answer_binds(asks) if asks else ""
        with contextlib.suppress(BrokenPipeError):  # the child has failed already, and says why
            os.write(go[1], b"" if problem else b"1")
        if problem or not numbers:
            os.close(go[1])  # else it stays open: number 1 sees by it that we live
        # The end comes when the program's exec closes the child's end, or
        # after the child has written why there was none.
        with open(error[0], "rb") as file:
            return file.read().decode() or problem

    def take_callers(self, stdin: tuple[int, int] | None, terminal: int | None) -> None:
        """Open the socket of `attach`, where there is more to it than the log says."""
        if stdin is None and terminal is None:
            return
        if stdin is not None:
            os.close(stdin[0])
        # Of its own: the output's end closes the other one, whose number would then be another file's.
        own = os.dup(terminal) if terminal is not None else None
        stdin_mode = self.intent.get(
            "stdin"
        )  # a terminal's input, too, is only for containers that ask for it
        end = stdin[1] if stdin else own if stdin_mode else None
        # Only containers with an input or a terminal need it. Imported by its name, so that its type is checked.
        from steelyard_local_kubernetes.kubelet.attach import AttachedCallers

        self.output.attached = AttachedCallers(self.base, end, own, once=stdin_mode == "once")

    def follow_init(self, born: tuple[int, int], ended: tuple[int, int], *, direct: bool) -> None:
        """The child has made number 1, which is ours now since the child has ended; or it failed, and says why.

        `direct`: it is number 1 itself.
        """
        os.close(born[1])
        os.close(ended[1])
        self.ended = ended[0]
        with open(born[0], "rb") as file:
            if not direct and (number := file.read()):
                os.waitpid(self.pid, 0)
                self.pid = int(number)

    def answer_binds(self, asks: tuple[int, int]) -> str:
        """Answer the child's calls once it asks; return why not, or nothing."""
        os.close(asks[1])
        with open(asks[0], "rb") as file:
            number = file.read()
        if not number:
            return ""  # the child has failed, and says why
        try:
            _binds().follow(self.pid, int(number), self.intent["address"])
        except OSError as error:
            return f"its calls of bind cannot be followed: {error.strerror}"
        return ""

    def record(self) -> dict[str, Any]:
        """Return what identifies this run later: processes by pid and start time, within one boot."""
        return {
            "pid": self.pid,
            "start": processes.start_time(self.pid),
            "shim": os.getpid(),
            "shimStart": processes.start_time(os.getpid()),
            "boot": processes.boot_id(),
            "startedAt": self.started_at,
        }

    def reap(self) -> bool:
        """Collect every ended process; those whose parents died are ours as well. False: no process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                said = os.read(self.ended, 64) if self.ended >= 0 else b""
                self.status = int(said) if said else status

    def terminate(self) -> None:
        """Ask the container's process group to end."""
        if self.status is not None:
            return
        if self.ended >= 0:
            os.kill(self.pid, signal.SIGTERM)  # number 1 passes it on
            return
        try:
            os.killpg(self.pid, signal.SIGTERM)
        except ProcessLookupError:  # it has no session of its own yet
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill whatever still runs below us, until nothing is left."""
        # Again and again: processes fork between the search and their end. The
        # bound is for one that the kernel cannot kill.
        for _ in range(1000):
            if not self.reap():
                return
            for pid in processes.descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.002)

    def watch(self, wake: int, asked: set[int]) -> None:
        """Copy output and pass signals on until the container's first process has ended."""
        pause = min(10.0, self.lease.seconds / 5)
        expired = 0.0
        while self.status is None:
            attached = self.output.attached
            is_behind = attached is not None and attached.is_behind()
            streams = () if is_behind else tuple(self.output.streams)
            reads = [wake, *streams, *(attached.reads() if attached else ())]
            writes = attached.writes() if attached else []
            readable, _, _ = select.select(reads, writes, [], min(pause, 1.0) if is_behind else pause)
            for fd in readable:
                if fd == wake:
                    os.read(wake, 512)
                elif fd in self.output.streams:
                    self.output.copy(fd)
            if attached:
                attached.handle([fd for fd in readable if fd not in self.output.streams])
            self.reap()
            if signal.SIGTERM in asked:
                asked.discard(signal.SIGTERM)
                self.terminate()
            if signal.SIGUSR2 in asked or (expired and time.monotonic() > expired):
                self.kill()
            if not expired and self.lease.expired():
                self.reason = "LeaseExpired"
                expired, pause = time.monotonic() + 5, 1.0
                asked.add(signal.SIGTERM)

    def finish(self, error: str) -> None:
        """Leave nothing running, write all that was said, then say how it ended."""
        self.kill()
        # A second at most: a process outside the tree that was handed a stream would keep it open for ever.
        self.output.drain(1.0)
        if self.output.attached is not None:
            self.output.attached.close(self.base)
        exit_record = {"startedAt": self.started_at, "finishedAt": nanoseconds_text(time.time_ns())}
        status = os.waitstatus_to_exitcode(self.status or 0)
        if error:
            exit_record |= {"exitCode": 128, "signal": 0, "reason": "StartError", "message": error}  # type: ignore[dict-item]
        else:
            # A signal becomes 128 plus its number, as container runtimes report it.
            code, number = (128 - status, -status) if status < 0 else (status, 0)
            exit_record |= {"exitCode": code, "signal": number, "reason": self.reason, "message": ""}  # type: ignore[dict-item]
        self._keep(f"{self.base}.exited", exit_record)

    def _keep(self, path: str, record: dict[str, Any]) -> None:
        """Write how it ended, and before that which lines were lost; a full disk is waited for as long as `up` is."""
        while True:
            self.output.append(b"")
            try:
                return write_whole(path, record)
            except OSError as error:
                if error.errno not in FULL or self.lease.expired():
                    raise
            time.sleep(ROOM_SECONDS)


def _binds() -> ModuleType:
    """Import the module of binds, which only containers of training Pods need."""
    from steelyard_local_kubernetes.kubelet import binds

    return binds


class Pipes(NamedTuple):
    """A container's child's ends: it writes to all but `go`."""

    streams: list[tuple[int, int]]  # standard output and error; of a terminal both
    stdin: int | None
    go: int
    error: int
    asks: int | None
    numbers: tuple[int, int] | None  # where number 1 reports, and how it ends; None: the machine's numbers
    direct: bool  # the child is number 1

    @property
    def is_terminal(self) -> bool:
        return len(self.streams) == 1


def run_program(intent: dict[str, Any], pipes: Pipes, execute: Execute) -> NoReturn:
    """Run the program in the child: the container's view of the files first, then the program, once the shim
    has recorded us.
    """
    try:
        for number in (*_SIGNALS, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if pipes.numbers is None:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.setsid()
        if intent["mounts"] is not None:
            _make_view(intent, pipes)
        if pipes.numbers is None:  # number 1 has to wait until its first parent is gone
            processes.end_with_parent()
        os.chdir(intent["cwd"])
        _take_streams(pipes)
        if pipes.asks is not None:
            _binds().ask(pipes.asks)
        if os.read(pipes.go, 1) != b"1":
            os._exit(1)  # the shim died before it could record us: as if never started
        _go(intent, pipes, execute)
    except Become:
        raise
    except OSError as problem:
        name = f" {problem.filename!r}" if problem.filename else ""
        os.write(pipes.error, f"{intent['argv'][0]}: {problem.strerror}{name}".encode())
    except BaseException as problem:  # noqa: BLE001 - a forked child must never return into the shim
        os.write(pipes.error, f"{type(problem).__name__}: {problem}".encode())
    os._exit(128)


def _go(intent: dict[str, Any], pipes: Pipes, execute: Execute) -> None:
    """Execute the program; where the container has numbers of its own, in a child of number 1."""
    if pipes.numbers is not None:
        processes.end_with_parent()
        if init.outlived(pipes.go):
            os._exit(1)
        if execute is None and not pipes.is_terminal:
            init.spawn_program(intent["argv"], intent["env"], pipes.numbers[1])
        init.run_program(pipes.numbers[1])
    _take_terminal(pipes)
    if execute is not None:
        execute(intent)
    os.execvpe(intent["argv"][0], intent["argv"], intent["env"])


def _take_streams(pipes: Pipes) -> None:
    os.dup2(pipes.streams[0][1], 1)
    os.dup2(pipes.streams[-1][1], 2)
    stdin = pipes.streams[0][1] if pipes.is_terminal else pipes.stdin
    if stdin is not None:
        os.dup2(stdin, 0)


def _take_terminal(pipes: Pipes) -> None:
    """Make the terminal the session's, which the program has by now: keys such as Ctrl-C are signals then."""
    if pipes.is_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _make_view(intent: dict[str, Any], pipes: Pipes) -> None:
    """Namespaces, mounts and, with process numbers of the container's own, the /proc that shows them."""
    splice.new_namespace(intent.get("hostname", ""), pids=pipes.numbers is not None and not pipes.direct)
    if pipes.numbers is not None:
        ends = [end for stream in pipes.streams for end in stream[1:]]
        ends += [pipes.go, pipes.error, pipes.numbers[1]]
        ends += [end for end in (pipes.asks, pipes.stdin) if end is not None]
        if pipes.direct:
            init.become(ends)
        else:
            init.be_born(pipes.numbers[0], ends)
    splice.apply([splice.Mount(**mount) for mount in intent["mounts"]], intent["keep"], intent["scratch"])
    if pipes.numbers is not None:
        splice.mount_proc()


def take_lock(path: str) -> int | None:
    """Held as long as the shim lives: what makes a second start of the same run impossible."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def watch_signals(asked: set[int]) -> int:
    """Signals are remembered in `asked` and wake the reader of the returned descriptor."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def remember(number: int, _: object) -> None:
        asked.add(number)

    for number in _SIGNALS:
        signal.signal(number, remember)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return read


def run(path: str, say_started: Callable[[], None], execute: Execute = None) -> int:
    """The shim's life; its exit status."""
    base = path.removesuffix(".json")
    try:
        lock = take_lock(f"{base}.lock")
        if lock is None:
            return BUSY
        if os.path.exists(f"{base}.started") or os.path.exists(f"{base}.exited"):
            return 0  # this run has been: never again
        intent = read_intent(path)
        # Orphans of the container come to us and not to the machine's init: whatever daemons it makes end with it.
        processes.adopt_orphans()
        asked: set[int] = set()
        wake = watch_signals(asked)
        container = Container(intent, base, execute)
        error = container.start()
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        time.sleep(ROOM_SECONDS)  # a child that waits for our record ends with us: as if never started
        return NO_ROOM
    say_started()
    container.watch(wake, asked)
    container.finish(error)
    return 0


def main() -> None:
    """`INTENT [FD]`: FD is closed once the program runs."""
    ready = int(sys.argv[2]) if len(sys.argv) > 2 else None
    if ready is not None:
        os.set_inheritable(ready, False)
    sys.exit(run(sys.argv[1], lambda: os.close(ready) if ready is not None else None))


def exec_main() -> None:
    """`INTENT PID PARENT COMMAND...`: runs a command where the container of that pid runs, with its environment.

    PARENT is the process that starts this one. The command ends with it, also where it is gone by now.
    """
    intent = read_intent(sys.argv[1])
    own_numbers = intent["mounts"] is not None and splice.enter(int(sys.argv[2]))
    processes.end_with_parent()  # after that: to enter a user namespace would undo it
    if os.getppid() != int(sys.argv[3]):
        os._exit(1)  # it died before the kernel knew that we go with it
    if own_numbers:
        _in_a_child()
    os.chdir(intent["cwd"])
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    moved = json.loads(intent["env"].get(MOUNTS, "{}"))
    command = [splice.rewrite(word, moved) for word in sys.argv[4:]]
    try:
        os.execvpe(command[0], command, intent["env"])
    except OSError as problem:
        os.write(2, f"{command[0]}: {problem.strerror}\n".encode())
        os._exit(126 if isinstance(problem, PermissionError) else 127)  # as shells do


def _in_a_child() -> None:
    """Return in a child, which has the container's process numbers; the caller ends as that does."""
    lives, held = os.pipe()  # the caller holds one end for as long as it lives
    pid = os.fork()
    if pid == 0:
        os.close(held)
        if os.isatty(0):
            os.setsid()  # to have the terminal; else one group has all that the command leaves, and ends with it
        processes.end_with_parent()
        if init.outlived(lives):
            os._exit(1)
        return
    for fd in (0, 1, 2):
        os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def probe_main() -> None:
    """Succeeds where containers can have a view of the files of their own."""
    splice.probe()


def probe_pids_main() -> None:
    """Succeeds where containers can have process numbers of their own."""
    splice.probe_pids()


def probe_binds_main() -> None:
    """Succeeds where the kernel lets us answer the calls of bind of a container."""
    _binds().probe()
