"""The base: Python and the libraries that it loads, from Debian's packages of this machine's release.

apt resolves the packages as for an empty machine, and verifies them; nothing is installed here and no script of a
package runs. Only few of a package's files are taken: no shell, no package manager, no documentation but the licences.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.images.errors import ImageError
from deploy.images.layers import digest_file

PACKAGES = ("ca-certificates", "libpython3-stdlib", "libstdc++6", "python3-minimal")
LEFT_OUT = re.compile(
    r"""apt|debconf|dpkg|gcc-.*-base|init-system-helpers|libacl1|libdb5.*|libgdbm.*|libmd0|libncurses.*|libpcre2.*
    |libreadline.*|libselinux1|libtinfo.*|libtirpc.*|libnsl2|libk5crypto3|libkrb5.*|libgssapi.*|libkeyutils1
    |libcom-err2|libzstd1|openssl|perl.*|readline-common|tar""",
    re.VERBOSE,
)
"""Packages that only package managers need, or modules of Python that are left out below."""
UNUSED_FILES = re.compile(
    r"""usr/share/(?!ca-certificates/|doc/[^/]+/copyright$|zoneinfo/).*
    |usr/lib/[^/]+/gconv/.*
    |usr/lib/python3/.*
    |usr/lib/python3\.\d+/(?:test|idlelib|tkinter|turtledemo|ensurepip|lib2to3|pydoc_data|venv|config-[^/]+)/.*
    |usr/lib/python3\.\d+/(?:.*/__pycache__/.*|sitecustomize\.py|turtle\.py)
    |usr/lib/python3\.\d+/lib-dynload/(?:readline|_curses|_curses_panel|_dbm|_gdbm|nis|_tkinter|_test\w+|_ctypes_test)\..*
    |usr/s?bin/(?!python3).*
    |etc/(?:python.*|bash.*|ld\.so.*|ca-certificates.*)""",
    re.VERBOSE,
)
MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links to those of the same name below `usr`."""
USER = 65532
FOLDERS = ("dev", "etc/ssl/certs", "proc", "run", "sys", "tmp", "usr/lib/ssl", "var/tmp")
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
TEXTS = {
    "etc/passwd": f"root:x:0:0:root:/:/nonexistent\nsteelyard:x:{USER}:{USER}:steelyard:/tmp:/nonexistent\n",
    "etc/group": f"root:x:0:\nsteelyard:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


@dataclass(frozen=True)
class Package:
    """One package of Debian, as it was loaded."""

    name: str
    version: str
    architecture: str
    path: Path
    digest: str


def fetch(cache: Path) -> list[Package]:
    """Load the packages of the base into a cache, those that they need included. Raises ImageError."""
    for program in ("apt-get", "dpkg-deb"):
        if not shutil.which(program):
            raise ImageError(
                f"there is no {program}: the base is made of Debian's packages, on Debian or Ubuntu"
            )
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return _fetch(cache, Path("/var/lib/apt/lists"))
        except (
            ImageError
        ):  # the machine's list of packages is not there, or names what the archive no longer has
            lists = cache / "lists"
            (lists / "partial").mkdir(parents=True, exist_ok=True)
            _run_apt(cache, lists, "update")
            return _fetch(cache, lists)


def _fetch(cache: Path, lists: Path) -> list[Package]:
    (cache / "debs" / "partial").mkdir(parents=True, exist_ok=True)
    (cache / "status").write_text("")
    install = ("install", "-y", "--no-install-recommends")
    planned = _run_apt(cache, lists, *install, "--simulate", *PACKAGES)
    _run_apt(cache, lists, *install, "--download-only", *PACKAGES)
    packages = []
    for name, version, architecture in re.findall(
        r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", planned, re.MULTILINE
    ):
        path = cache / "debs" / f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
        if not LEFT_OUT.fullmatch(name):
            packages.append(Package(name, version, architecture, path, digest_file(path)))
    return sorted(packages, key=lambda package: package.name)


def _run_apt(cache: Path, lists: Path, *words: str) -> str:
    options = {
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::Cache": str(cache),
        "Dir::Cache::archives": str(cache / "debs"),
        "Dir::State::lists": str(lists),
        "Dir::State::status": str(cache / "status"),
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *words]
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise ImageError(f"apt-get {' '.join(words)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def make_root(packages: Sequence[Package], root: Path) -> None:
    """Lay the root file system of the base into a folder."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    for package in packages:
        unpack(package.path, root)
        control = subprocess.run(
            ("dpkg-deb", "--field", package.path), capture_output=True, check=True
        ).stdout
        entry = root / "var/lib/dpkg/status.d" / package.name  # the place where scanners look for packages
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_bytes(control)
    for folder in MERGED:
        if (root / "usr" / folder).is_dir():
            (root / folder).symlink_to(f"usr/{folder}")
    for name, text in TEXTS.items():
        (root / name).write_text(text)
    shutil.copyfile("/usr/lib/os-release", root / "usr/lib/os-release")
    (root / "etc/os-release").symlink_to("../usr/lib/os-release")
    authorities = root / "usr/share/ca-certificates"
    (root / CERTIFICATES).write_bytes(
        b"".join(path.read_bytes() for path in sorted(authorities.rglob("*.crt")))
    )
    shutil.rmtree(authorities)
    (root / "usr/lib/ssl/cert.pem").symlink_to(f"/{CERTIFICATES}")
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
    (root / "usr/bin/python").symlink_to("python3")


def unpack(package: Path, root: Path) -> None:
    """Unpack the files of a package that an image needs."""
    command = ("dpkg-deb", "--fsys-tarfile", package)
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = image_path(member.name)
            if name and not member.isdir() and not UNUSED_FILES.fullmatch(name):
                _lay(archive, member, root / name, root)
    if process.returncode:
        raise ImageError(f"{package.name}: dpkg-deb ended with status {process.returncode}")


def _lay(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path, root: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        path.symlink_to(member.linkname)
    elif member.islnk():
        shutil.copy2(root / image_path(member.linkname), path)
    elif (content := archive.extractfile(member)) is not None:
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)


def image_path(name: str) -> str:
    """Return the place of a package's file: the folders of programs and libraries lie below `usr`."""
    name = name.removeprefix("./").strip("/")
    return f"usr/{name}" if name.partition("/")[0] in MERGED else name


@dataclass(frozen=True)
class Interpreter:
    """The Python of a base, which also runs on this machine, by the base's own loader and libraries."""

    root: Path

    @property
    def version(self) -> str:
        """Version as folders are named, such as 3.11."""
        return os.readlink(self.root / "usr/bin/python3").removeprefix("python")

    @property
    def modules(self) -> Path:
        """Folder of installed modules, relative to a root."""
        return Path(f"usr/local/lib/python{self.version}/dist-packages")

    @property
    def library(self) -> Path:
        return self.root / "usr/lib" / f"python{self.version}"

    def command(self, *words: str) -> list[str]:
        (loader,) = self.root.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
        program = self.root / "usr/bin" / f"python{self.version}"
        return [str(loader), "--library-path", str(loader.parent), str(program), *words]

    def run(self, *words: str) -> None:
        """Run the interpreter, without modules of this machine. Raises ImageError."""
        # The order of sets is part of what is compiled.
        environment = {"PYTHONHOME": str(self.root / "usr"), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
        command = self.command("-S", "-s", *words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImageError(f"python {' '.join(words)}: {(done.stdout + done.stderr).strip()[-500:]}")
