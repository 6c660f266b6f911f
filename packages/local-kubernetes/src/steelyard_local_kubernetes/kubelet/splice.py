"""A container's view of the file system: volumes at their paths, also where the host has no such path.

Runs in the container's own process, in a fresh mount namespace, before its program starts; standard library
only. A path that the host lacks is made by splicing: a tmpfs takes the place of its nearest existing folder,
and everything else that was there is bound back. The host's own folders are never written to.
"""

import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE, MS_UNBINDABLE = 1, 32, 4096, 16384, 1 << 19, 1 << 17
MNT_DETACH = 2
_LONGEST = 131_071  # bytes of an argument or a variable (MAX_ARG_STRLEN without its NUL)
_KEPT_FLAGS = {
    2: 2,
    4: 4,
    8: 8,
    1024: 1024,
    2048: 2048,
    4096: 1 << 21,
}  # statvfs flags a remount may not drop
_NOT_A_PODS = re.compile(
    r"^(tty\d+|ttyS\d+|vcs\w*|loop[\w-]*|ram\d+|vd\w+|sd\w+|nvme\w*|dm-\d+|mem|kmsg|port)$"
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")  # of spaces and tabs in the kernel's lists

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    """Show `source` at `target`; a `link` is a symbolic link, which follows a file that is replaced."""

    source: str
    target: str
    read_only: bool = False
    link: bool = False


def inside(path: str, folder: str) -> bool:
    """Return whether a path lies below a folder."""
    return path != folder and (folder == "/" or path.startswith(folder + "/"))


def add_visible(mounts: list[Mount], keep: list[str]) -> list[Mount]:
    """The mounts in their order, and what they would hide but must not."""
    hidden = [path for path in keep if any(inside(path, mount.target) for mount in mounts)]
    taken = {mount.target for mount in mounts}
    kept = [Mount(path, path) for path in dict.fromkeys(hidden) if path not in taken]
    return sorted([*mounts, *kept], key=lambda mount: mount.target)


def rewrite(text: str, folders: Mapping[str, str]) -> str:
    """Paths in a text moved to where the files really are, for machines without mount namespaces.

    Raises OSError, before it is made, for a text that Linux would not give to a program.
    """
    if not folders:
        return text
    # /data/in before /data, which the pattern would else take of it.
    longest_first = sorted(folders, key=len, reverse=True)
    paths = "|".join(re.escape(path) for path in longest_first)
    # Whole paths only: /data is no part of /database or of ./data, but it is the path of file:///data.
    pattern = re.compile(rf"(?:(?<![\w./-])|(?<=://))(?:{paths})(?![\w.-])")
    grown = sum(len(folders[match[0]]) - len(match[0]) for match in pattern.finditer(text))
    if len(text) + grown > _LONGEST:
        raise OSError(errno.E2BIG, f"a text takes more than {_LONGEST} bytes with the paths of its volumes")
    return pattern.sub(lambda match: folders[match[0]], text)


def folders_to_splice(mounts: list[Mount], exists: Callable[[str], bool]) -> list[str]:
    """The host's folders that need a tmpfs in their place, outermost first.

    A target below another mount needs none: it is made inside that mount's volume.
    """
    needed: set[str] = set()
    for mount in mounts:
        if any(inside(mount.target, other.target) for other in mounts):
            continue
        folder = mount.target
        if mount.link or not exists(folder):
            folder = os.path.dirname(folder)
        while not exists(folder):
            folder = os.path.dirname(folder)
        if folder != mount.target:
            needed.add(folder)
    return sorted(needed)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int, kind: str | None = None, options: str | None = None) -> None:
    values = [value and os.fsencode(value) for value in (source, target, kind, options)]
    done = _libc.mount(values[0], values[1], values[2], ctypes.c_ulong(flags), values[3])
    _check(done, f"mount {target}")


def number_child() -> bool:
    """Give the next child process numbers of its own, whose number 1 it is; False where that takes a user namespace."""
    return bool(_libc.unshare(CLONE_NEWPID) == 0)


def undo_number_child() -> None:
    """Undo `number_child` once the child exists: a process whose children have other numbers can start no threads."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.setns(own, CLONE_NEWPID), "setns")
    os.close(own)


def new_namespace(hostname: str = "", *, pids: bool = False) -> None:
    """A mount namespace and a host name of our own; without privileges, in a user namespace that maps us alone.

    With `pids` the next child is number 1 of process numbers of its own.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | (CLONE_NEWUTS if hostname else 0) | (CLONE_NEWPID if pids else 0)
    if _libc.unshare(flags) != 0:
        _check(_libc.unshare(CLONE_NEWUSER | flags), "unshare")
        # Without privileges the kernel takes a gid_map only once setgroups is denied.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    # Where the host shares its mounts, ours would else appear on it. Slave and not
    # private: what the host mounts later is still seen here.
    _mount("none", "/", MS_REC | MS_SLAVE)
    if hostname:
        own = os.fsencode(hostname)
        _check(_libc.sethostname(own, ctypes.c_size_t(len(own))), "sethostname")


def _mirror(folder: int, target: str, skip: Callable[[str], bool]) -> None:
    """Mirror an open folder: bind or link everything of it into the empty folder `target`."""
    for entry in os.scandir(folder):
        if skip(entry.name):
            continue
        there, here = f"/proc/self/fd/{folder}/{entry.name}", f"{target}/{entry.name}"
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=folder), here)
                continue
            if entry.is_dir():
                os.mkdir(here)
            else:
                os.close(os.open(here, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            _mount(there, here, MS_BIND | MS_REC)
        except OSError:  # it vanished, or may not be seen: then the Pod does not see it either
            continue


def _is_not_a_pods(device: str) -> bool:
    return bool(_NOT_A_PODS.match(device))


def _is_none(_: str) -> bool:
    return False


def _splice(opened: int, place: str, links: Mapping[str, str], skip: Callable[[str], bool]) -> None:
    """Put a tmpfs with everything of an open folder of the host at `place`, and with symbolic links of its own."""
    mode = stat.S_IMODE(os.fstat(opened).st_mode)
    _mount("tmpfs", place, 0, "tmpfs", f"mode={mode:o}")
    # The binds that follow are recursive, and one of them may contain this very place.
    _mount("none", place, MS_UNBINDABLE)
    _mirror(opened, place, lambda name: name in links or skip(name))
    for name, source in links.items():
        os.symlink(source, f"{place}/{name}")


def _layer(opened: int, place: str, links: Mapping[str, str], scratch: str) -> bool:
    """Lay the written files over an open folder of the host: one mount, where a mirror takes one for each entry.

    Only for files that do not change: through a layer a socket cannot be reached, and what the host writes later may
    stay unseen. False: this kernel or file system has no layers.
    """
    below = _mounts_below(place)
    mode = stat.S_IMODE(os.fstat(opened).st_mode)
    _mount("tmpfs", scratch, 0, "tmpfs")
    layers = 0
    try:
        for folder in ("upper", "work"):
            os.mkdir(f"{scratch}/{folder}")
            os.chmod(f"{scratch}/{folder}", mode)
        for name, source in links.items():
            os.symlink(source, f"{scratch}/upper/{name}")
        options = f"lowerdir=/proc/self/fd/{opened},upperdir={scratch}/upper,workdir={scratch}/work"
        _mount("overlay", place, 0, "overlay", options)
        layers = 1
        _mount("none", place, MS_UNBINDABLE)
        # A layer shows one file system, without what is mounted below the folder: in a machine that is a container,
        # resolv.conf is such a mount.
        for name in below:
            if name not in links:
                _mount(f"/proc/self/fd/{opened}/{name}", f"{place}/{name}", MS_BIND)
    except OSError:
        if layers:
            _check(_libc.umount2(os.fsencode(place), MNT_DETACH), f"umount {place}")
        layers = 0
    # The layer keeps the file system alive, or nothing needs it.
    _check(_libc.umount2(os.fsencode(scratch), MNT_DETACH), f"umount {scratch}")
    return bool(layers)


def _mounts_below(folder: str) -> list[str]:
    """Paths in a folder of the host at which something is mounted, outermost first."""
    with open("/proc/self/mountinfo", "rb") as file:
        fields = [line.split(b" ", 5)[4] for line in file]
    paths = [os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), field)) for field in fields]
    return sorted(path[len(folder) + 1 :] for path in paths if inside(path, folder))


def _bind(source: int, target: str, read_only: bool) -> None:
    folder = stat.S_ISDIR(os.fstat(source).st_mode)
    if not os.path.lexists(target):
        os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)
        if not folder:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(f"/proc/self/fd/{source}", target, MS_BIND | MS_REC)
    if read_only:
        flags = os.statvfs(target).f_flag
        kept = sum(flag for known, flag in _KEPT_FLAGS.items() if flags & known)
        _mount("none", target, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def apply(mounts: list[Mount], keep: list[str], scratch: str) -> None:
    """Make the view, in a namespace of our own. `scratch` is an empty folder for a new root, if one is needed."""
    # A target may lead through a link of the host (/var/run): the mount is made where it points.
    resolved = [Mount(m.source, os.path.realpath(m.target), m.read_only, m.link) for m in mounts]
    ordered = add_visible(resolved, [path for path in keep if os.path.exists(path)])
    # Opened before anything is covered: a source may lie below a folder that a tmpfs is about to replace.
    sources = {m.target: os.open(m.source, os.O_PATH | os.O_CLOEXEC) for m in ordered if not m.link}
    linked, root = set(), ""
    for folder in folders_to_splice(ordered, os.path.exists):
        # Opened before it is covered: afterwards only this descriptor leads to what was there.
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if folder == "/":
            root = scratch
        own = [m for m in ordered if m.link and os.path.dirname(m.target) == folder]
        links = {os.path.basename(link.target): link.source for link in own}
        linked |= {link.target for link in own}
        if root or folder != "/etc" or not _layer(opened, folder, links, scratch):
            _splice(
                opened, f"{root}{folder}".rstrip("/"), links, _is_not_a_pods if folder == "/dev" else _is_none
            )
        os.close(opened)
    for mount in ordered:
        if mount.target in linked:
            continue
        if mount.link:
            os.symlink(mount.source, root + mount.target)
        else:
            _bind(sources[mount.target], root + mount.target, mount.read_only)
            os.close(sources[mount.target])
    if root:
        os.chdir(root)
        # With the same folder twice the old root lies on top of the new one, and
        # the next call takes it away (pivot_root(2)).
        _check(_libc.pivot_root(b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", MNT_DETACH), "umount")
        os.chdir("/")


def mount_proc() -> None:
    """Show the processes of our own numbers alone."""
    _mount("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "proc")


def enter(pid: int) -> bool:
    """See files and host name as the process does: a probe's command runs where its container runs.

    True when the container has process numbers of its own: they count for children that are made from now on.
    """
    others = {}
    for name in ("user", "mnt", "uts", "pid"):
        path = (
            f"/proc/{pid}/ns/{name}"  # all before the first is entered: then /proc shows another's processes
        )
        if os.readlink(path) != os.readlink(f"/proc/self/ns/{name}"):
            others[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    for name, fd in others.items():
        _check(_libc.setns(fd, 0), f"setns {name}")
        os.close(fd)
    return "pid" in others


def probe_pids() -> None:
    """Fails unless process numbers of one's own and a /proc that shows them are to be had."""
    new_namespace(pids=True)
    pid = os.fork()
    if pid == 0:
        try:
            mount_proc()
            os._exit(0 if os.readlink("/proc/self") == str(os.getpid()) == "1" else 1)
        except BaseException:  # noqa: BLE001 - a forked child must never return
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(errno.EPERM, "no process numbers of its own")


def probe() -> None:
    """Fails unless a namespace, a tmpfs and a bind are to be had; run in a process of its own."""
    new_namespace("probe")
    _mount("tmpfs", "/dev", 0, "tmpfs")
    os.mkdir("/dev/probe")
    _mount("/proc", "/dev/probe", MS_BIND | MS_REC)
