"""Apache Kafka in KRaft mode: three brokers, each also a controller, from Maven's registry.

The jars lie in a cache outside the tree, with an archive of the classes that a broker loads: with it a broker starts in
two seconds in place of nine.
"""

import asyncio
import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from steelyard.broker.log import LogError
from tests.engines.build import Missing
from tests.engines.control_plane import free_ports
from tests.engines.services.location import HERE, Location
from tests.engines.services.service import Service

T = TypeVar("T")
POM = Path(__file__).parent / "kafka_jars" / "pom.xml"
BROKERS = 3
HEAP = "256m"
ARCHIVE = "classes.jsa"
READY_SECONDS = 120.0
PROPERTIES = """
process.roles=broker,controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INNER
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=1
# A group's first members need not wait for others.
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.backoff.ms=500
# What a killed producer left open holds up readers until it is ended.
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
# A broker that comes back is refused while the session of the killed one lasts.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
log.retention.check.interval.ms=10000
"""
ADMINISTRATOR = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "admin-secret",
}
"""Login of clients that may do everything, on brokers with access control."""
USER, PASSWORD = "steelyard", "user-secret"
"""Login of a user who has only the rights that access control lists grant."""
ACCESS_CONTROL = f"""
listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_admin="{ADMINISTRATOR["sasl.password"]}" user_{USER}="{PASSWORD}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
# The brokers reach each other without a login.
super.users=User:admin;User:ANONYMOUS
"""
LOGGING = """
status=error
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=OUT
"""


@dataclass(frozen=True)
class Cluster:
    """Brokers that form one cluster."""

    brokers: Sequence[Service]
    login: Mapping[str, str] = field(default_factory=dict)
    """Settings with which a client logs in as administrator."""

    @property
    def address(self) -> str:
        return "kafka://" + ",".join(broker.address for broker in self.brokers)

    @property
    def bootstrap(self) -> str:
        """The brokers, as Kafka's own clients are told them."""
        return ",".join(broker.address for broker in self.brokers)

    def wait(self) -> None:
        """Return once every broker has joined and every partition has all its replicas in sync.

        Raises RuntimeError after two minutes.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.login})
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                seen = admin.list_topics(timeout=5)
                partitions = [p for topic in seen.topics.values() for p in topic.partitions.values()]
                whole = all(sorted(p.isrs) == sorted(p.replicas) and p.leader >= 0 for p in partitions)
                if whole and len(seen.brokers) == len(self.brokers):
                    return
            except KafkaException:
                pass  # no controller is elected yet
            if time.monotonic() > end:
                raise RuntimeError("the brokers do not form a whole cluster")
            time.sleep(0.05)


async def until(read: Callable[[], Awaitable[T]], holds: Callable[[T], object]) -> T:
    """Return the first state that holds: each broker hears of a change some time after it was confirmed."""
    async with asyncio.timeout(READY_SECONDS):
        while not holds(state := await read()):  # noqa: ASYNC110 - only the brokers know
            await asyncio.sleep(0.1)
    return state


async def refusal(read: Callable[[], Awaitable[object]]) -> str:
    """Return what a log refuses with; empty where it does not."""
    try:
        await read()
    except LogError as error:
        return str(error)
    return ""


def jars() -> Path:
    """Return the folder of the broker's jars and class archive, made once per machine.

    Raises Missing without a JDK or Maven.
    """
    for program in ("java", "mvn"):
        if not shutil.which(program):
            raise Missing(f"{program} is not installed")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    folder = Path(base) / "steelyard" / "engines" / f"kafka-{version}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    print("fetching Kafka ...", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as target:
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={target}/jars", "-DincludeScope=runtime"]
        subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(POM), *copy], check=True, stdout=2
        )
        jars = Path(target, "jars")
        jars.chmod(0o755)
        _archive_classes(jars)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.exists():  # another run was faster
                raise
    return folder


def _archive_classes(jars: Path) -> None:
    """Run a broker once, which writes an archive of its classes when it ends."""
    flag = f"-XX:ArchiveClassesAtExit={jars / ARCHIVE}"
    with _brokers(jars, 1, [flag]) as cluster:
        cluster.wait()
        cluster.brokers[0].terminate()


@contextmanager
def kafka(count: int = BROKERS, place: Location = HERE, *, access_control: bool = False) -> Iterator[Cluster]:
    """A cluster without topics; with access control, clients log in as ADMINISTRATOR or USER. Raises Missing."""
    folder = jars()
    archive = folder / ARCHIVE
    flags = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    more = flags if archive.exists() else []
    with _brokers(folder, count, more, place, access_control=access_control) as cluster:
        cluster.wait()
        yield cluster


@contextmanager
def _brokers(
    jars: Path, count: int, flags: Sequence[str], place: Location = HERE, *, access_control: bool = False
) -> Iterator[Cluster]:
    login = ADMINISTRATOR if access_control else {}
    # None within another: a broker's guard removes its broker's folder and no other.
    folders = [Path(tempfile.mkdtemp(prefix="steelyard-kafka-")) for _ in range(count)]
    # Brokers reach each other by a listener of their own: clients alone are cut off from them.
    ports = free_ports(3 * count)
    listeners, inner, controllers = ports[:count], ports[count : 2 * count], ports[2 * count :]
    outer = [place.reached(port) for port in listeners]
    voters = ",".join(f"{n + 1}@127.0.0.1:{port}" for n, port in enumerate(controllers))
    # A cluster's id must not begin with a dash: the tool would take it for an option.
    cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    java = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
    java += ["-XX:+ExitOnOutOfMemoryError", "-Djava.net.preferIPv4Stack=true"]
    try:
        with ExitStack() as stack:
            brokers = []
            for number, folder in enumerate(folders):
                properties = folder / "server.properties"
                properties.write_text(
                    _properties(
                        count,
                        number,
                        f"PLAINTEXT://{place.host}:{listeners[number]},INNER://127.0.0.1:{inner[number]},"
                        f"CONTROLLER://127.0.0.1:{controllers[number]}",
                        f"PLAINTEXT://{outer[number]},INNER://127.0.0.1:{inner[number]}",
                        voters,
                        folder,
                    )
                    + (ACCESS_CONTROL if access_control else "")
                )
                (folder / "log4j2.properties").write_text(LOGGING)
                program = [
                    *java,
                    f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
                    f"-Dkafka.logs.dir={folder}",
                ]
                tool = ["-cp", f"{jars}/*", "kafka.tools.StorageTool", "format", "-t", cluster]
                subprocess.run(
                    [*program, *tool, "-c", str(properties)], check=True, capture_output=True, cwd=folder
                )
                command = [*program, *flags, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
                brokers.append(Broker(outer[number], command, folder, place.enter, login))
            for broker in brokers:
                stack.callback(broker.stop)
                broker.begin()
            for broker in brokers:
                broker.wait()
            yield Cluster(brokers, login)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


class Broker(Service):
    """One broker, which answers its listener's port."""

    def __init__(
        self,
        address: str,
        command: list[str],
        folder: Path,
        enter: Sequence[str],
        login: Mapping[str, str],
    ) -> None:
        self._login = login
        super().__init__(address, command, folder, self._answers, enter=enter)

    def _answers(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0, **self._login})
        try:
            admin.list_topics(timeout=5)
        except KafkaException as error:
            raise OSError(str(error)) from error


def _properties(count: int, number: int, listeners: str, advertised: str, voters: str, folder: Path) -> str:
    replicas = {
        "default.replication.factor": count,
        "min.insync.replicas": min(2, count),
        "offsets.topic.replication.factor": count,
        "transaction.state.log.replication.factor": count,
        "transaction.state.log.min.isr": min(2, count),
        "share.coordinator.state.topic.replication.factor": count,
        "share.coordinator.state.topic.min.isr": min(2, count),
    }
    own = {
        "node.id": number + 1,
        "controller.quorum.voters": voters,
        "listeners": listeners,
        "advertised.listeners": advertised,
        "log.dirs": folder / "data",
    }
    return PROPERTIES + "".join(f"{name}={value}\n" for name, value in (replicas | own).items())
