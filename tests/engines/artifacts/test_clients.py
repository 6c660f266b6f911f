"""Clients of registries push, discover, copy, pull and delete in the registry of artifacts: oras, crane, skopeo, helm.

They need no node: the platform runs in this process.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.build import go_program, helm
from tests.platform_api.published import Laboratory, laboratory
from tests.platform_api.registry import Registry, digest_of

ORAS = ("oras", "oras.land/oras/cmd/oras", "v1.3.6")
CRANE = ("crane", "github.com/google/go-containerregistry/cmd/crane", "v0.22.1")
SIGNATURE, SBOM = "application/vnd.example.signature", "application/vnd.example.sbom"
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: greeting\nversion: 1.2.3\n",
    "templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\n",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("registry")) as made:
        yield made


class Shell:
    """Runs clients that are logged in, with an artifact of their own."""

    def __init__(self, lab: Laboratory, folder: Path) -> None:
        self.registry, self.folder = Registry(lab), folder
        self.host = self.registry.root.removeprefix("http://")
        self.target = f"{self.host}{self.registry.path.removeprefix('/v2')}"
        self.environment = {
            "HOME": str(folder),
            "DOCKER_CONFIG": str(folder / "docker"),
            "HELM_REGISTRY_CONFIG": str(folder / "docker" / "config.json"),
        }
        user = ("--username", "unused", "--password-stdin")
        self.oras("login", "--plain-http", self.host, *user, stdin=lab.platform.token)

    def run(self, program: Path, *words: str, stdin: str = "", status: int = 0) -> str:
        """Return what a client prints; it ends with this status."""
        done = subprocess.run(
            [program, *words],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stdout + done.stderr

    def oras(self, *words: str, stdin: str = "") -> str:
        return self.run(go_program(*ORAS), *words, stdin=stdin)

    def crane(self, *words: str) -> str:
        return self.run(go_program(*CRANE), *words, "--insecure")

    def skopeo(self, *words: str, status: int = 0) -> str:
        plain = [f"--{end}-tls-verify=false" for end in ("src", "dest")]
        options = plain if words[0] == "copy" else ["--tls-verify=false"]
        program = shutil.which("skopeo")
        assert program is not None
        return self.run(Path(program), words[0], *options, *words[1:], status=status)

    def attach(self, kind: str, name: str) -> None:
        (self.folder / name).write_text(f"{name}\n")
        self.oras(
            "attach", "--plain-http", "--artifact-type", kind, f"{self.target}:v1", f"{name}:text/plain"
        )

    def discovered(self, target: str, *words: str) -> list[str]:
        """Return the types of the referrers that oras finds."""
        listed = json.loads(self.oras("discover", "--plain-http", "--format", "json", *words, target))
        return sorted(one["artifactType"] for one in listed["referrers"])


@pytest.fixture
def shell(lab: Laboratory, tmp_path: Path) -> Shell:
    return Shell(lab, tmp_path)


def test_oras_attaches_discovers_copies_and_deletes_referrers(
    lab: Laboratory, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "weights.txt").write_text("0.5 0.25\n")
    shell.oras("push", "--plain-http", f"{shell.target}:v1", "weights.txt:text/plain")
    shell.attach(SIGNATURE, "signature.txt")
    shell.attach(SBOM, "sbom.txt")
    source = f"{shell.target}:v1"
    assert shell.discovered(source) == [SBOM, SIGNATURE]
    assert shell.discovered(source, "--artifact-type", SIGNATURE) == [SIGNATURE]
    copy = Registry(lab)
    target = f"{shell.host}/artifacts/{copy.id}:v1"
    shell.oras("cp", "-r", "--from-plain-http", "--to-plain-http", source, target)
    assert shell.discovered(target) == [SBOM, SIGNATURE]
    subject = digest_of(copy.ask("GET", "manifests/v1").content)
    (signature,) = copy.ask("GET", f"referrers/{subject}?artifactType={SIGNATURE}").json()["manifests"]
    shell.oras(
        "manifest", "delete", "--plain-http", "--force", f"{target.removesuffix(':v1')}@{signature['digest']}"
    )
    assert shell.discovered(target) == [SBOM]
    # No client keeps a list of its own by a tag, as with a registry that has none.
    assert copy.ask("GET", "tags/list").json()["tags"] == ["v1"]
    assert copy.finalize().status_code == 200
    assert shell.discovered(target) == [SBOM]
    shell.oras("pull", "--plain-http", "--output", "pulled", target)
    assert (tmp_path / "pulled" / "weights.txt").read_text() == "0.5 0.25\n"


def test_crane_copies_an_image_and_deletes_it(lab: Laboratory, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "layer.txt").write_text("layer\n")
    shell.run(Path("/bin/tar"), "-cf", "layer.tar", "layer.txt")
    shell.crane("append", "--new_layer", "layer.tar", "--new_tag", f"{shell.target}:v1")
    digest = shell.crane("digest", f"{shell.target}:v1").strip()
    copy = Registry(lab)
    shell.crane("copy", f"{shell.target}:v1", f"{shell.host}/artifacts/{copy.id}:v1")
    assert shell.crane("ls", f"{shell.host}/artifacts/{copy.id}").split() == ["v1"]
    shell.crane("delete", f"{shell.target}@{digest}")
    assert shell.crane("ls", shell.target).split() == []


def test_skopeo_copies_inspects_lists_and_deletes_an_image(
    lab: Laboratory, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "layer.txt").write_text("layer\n")
    shell.run(Path("/bin/tar"), "-cf", "layer.tar", "layer.txt")
    shell.crane("append", "--new_layer", "layer.tar", "--new_tag", f"{shell.target}:v1")
    source = f"docker://{shell.target}"
    shell.skopeo("copy", f"{source}:v1", "oci:layout:v1")
    # In Docker's form of manifests, from a folder, with the token as the password.
    token = f"unused:{lab.platform.token}"
    shell.skopeo("copy", "--format", "v2s2", "--dest-creds", token, "oci:layout:v1", f"{source}:docker")
    assert json.loads(shell.skopeo("list-tags", source))["Tags"] == ["docker", "v1"]
    seen, as_docker = (json.loads(shell.skopeo("inspect", f"{source}:{tag}")) for tag in ("v1", "docker"))
    assert seen["Digest"] == shell.crane("digest", f"{shell.target}:v1").strip()
    assert seen["Digest"] != as_docker["Digest"]
    assert len(seen["Layers"]) == 1
    configuration = json.loads(shell.skopeo("inspect", "--config", f"{source}:v1"))
    assert len(configuration["rootfs"]["diff_ids"]) == 1
    copy = Registry(lab)
    target = f"docker://{shell.host}/artifacts/{copy.id}"
    shell.skopeo("copy", "--all", f"{source}:v1", f"{target}:v1")
    assert json.loads(shell.skopeo("inspect", f"{target}:v1"))["Digest"] == seen["Digest"]
    shell.skopeo("delete", f"{source}:v1")
    assert json.loads(shell.skopeo("list-tags", source))["Tags"] == ["docker"]
    assert "manifest unknown: there is no tag v1" in shell.skopeo("inspect", f"{source}:v1", status=1)
    assert "unauthorized" in shell.skopeo("inspect", "--no-creds", f"{target}:v1", status=1)
    assert copy.finalize().status_code == 200
    refused = shell.skopeo("copy", "oci:layout:v1", f"{target}:v2", status=1)
    assert f"denied: artifact {copy.id} is Ready, and takes nothing more" in refused


def test_a_chart_is_pushed_by_oras_and_pulled_by_helm(shell: Shell, tmp_path: Path) -> None:
    for name, content in CHART.items():
        path = tmp_path / "greeting" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    shell.run(helm(), "package", "greeting")
    refused = shell.run(
        helm(), "push", "--plain-http", "greeting-1.2.3.tgz", f"oci://{shell.target}", status=1
    )
    assert "without the name that `helm push` adds" in refused
    (tmp_path / "chart.json").write_text(
        json.dumps({"name": "greeting", "version": "1.2.3", "apiVersion": "v2"})
    )
    shell.oras(
        *("push", "--plain-http", f"{shell.target}:1.2.3"),
        *("--config", "chart.json:application/vnd.cncf.helm.config.v1+json"),
        "greeting-1.2.3.tgz:application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    )
    assert shell.registry.finalize().status_code == 200
    chart = ("--plain-http", f"oci://{shell.target}", "--version", "1.2.3")
    assert "kind: ConfigMap" in shell.run(helm(), "template", "greeting", *chart)
    shell.run(helm(), "pull", *chart, "--untar", "--untardir", "pulled")
    assert (tmp_path / "pulled" / "greeting" / "Chart.yaml").read_text() == CHART["Chart.yaml"]
