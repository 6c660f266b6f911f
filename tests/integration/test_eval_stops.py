"""`steelyard eval run` that has to stop, or must not begin: everything answered is kept, and paid for once."""

import asyncio
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.eval_command import IN_FLIGHT, MODEL, PART, RunFolder, ended, endpoint, kill

LIMITED = "import resource,sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
UNDER_LIMIT = LIMITED + "; sys.argv[0] = 'steelyard'; from steelyard.cli.main import main; main()"


async def test_ctrl_c_keeps_what_was_answered(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 300).write()
    async with endpoint(seconds=0.05) as server:
        process = await place.start(server, "--display", "plain")
        await server.until_asked(100)
        stopped = await kill(process, signal.SIGINT)
        paid = server.answered.total()
        assert (stopped.status, paid) == (130, server.calls), "what was in flight is awaited"
        assert f"steelyard eval run {place.run}" in stopped.out
        assert (await place.go(server)).status == 0
    assert server.calls == place.rows, "nothing is asked twice"
    place.check()


async def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 100).write()
    async with endpoint(seconds=120) as server:
        process = await place.start(server)
        await server.until_asked(20)
        process.send_signal(signal.SIGINT)
        assert process.stdout
        async with asyncio.timeout(60):  # what is in flight would take longer
            async for line in process.stdout:  # two signals that come before it looks are one
                if b"Ctrl-C again stops at once" in line:
                    break
            assert (await kill(process, signal.SIGINT)).status == 130
        server.seconds = 0
        assert (await place.go(server)).status == 0
    place.check()


async def test_a_second_command_takes_over(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 3 * PART).write()
    async with endpoint(seconds=0.02) as server:
        first = await place.start(server)
        await server.until_asked(PART // 2)
        server.answers.clear()  # else the first may have ended before the second has begun
        await server.until_in_flight(IN_FLIGHT)  # the first asks no more
        calls = server.calls
        second = asyncio.create_task(ended(await place.start(server)))
        # The second asks: it has taken the run over. The first may see that, and end its calls, before it asks.
        asks = asyncio.create_task(server.until_asked(calls + 1))
        await asyncio.wait({asks, second}, return_when=asyncio.FIRST_COMPLETED)
        assert asks.done(), f"the second asked nothing: {second.result()}"
        server.answers.set()
        fenced, done = await asyncio.gather(ended(first), second)
    assert (fenced.status, done.status) == (1, 0)
    assert fenced.said == (
        f"steelyard: {place.run}: another command has taken this run over and goes on with it; this one ends\n"
    )
    place.check()


async def test_changed_input_is_refused_before_any_call(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 20).write()
    async with endpoint(seconds=0) as server:
        assert (await place.go(server)).status == 0
        calls = server.calls
        RunFolder(place.folder, 21).write()
        refused = await place.go(server)
        assert (refused.status, server.calls) == (2, calls)
    assert refused.said.startswith(f"steelyard: {place.run}: was begun with another prompt file")
    RunFolder(place.folder, 20).check()


async def test_a_cap_stops_it_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 200).write()
    async with endpoint(seconds=0.01) as server:
        capped = await place.go(server, "--max-tokens-total", "1500")
        assert (capped.status, server.calls) == (4, server.answered.total())
        assert 100 <= server.calls < 150
        assert (await place.go(server, "--max-tokens-total", "100000")).status == 0
    assert server.calls == place.rows
    place.check()


@pytest.mark.soak
async def test_a_limit_of_file_size_is_reported_and_work_goes_on_later(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 2 * PART).write()
    size = 128 << 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != size
    async with endpoint(seconds=0, size=2000) as server:
        under = ("-c", UNDER_LIMIT.format(size=size))
        full = await ended(await place.start(server, under=under))
        assert full.status == 1
        assert str(place.run) in full.said
        assert "File too large" in full.said
        assert full.said.count("\n") == 1, "one line, no traceback"
        assert not (place.run / "report.html").exists()
        assert (await place.go(server)).status == 0
    place.check()


SMALL_DISK = """
mount -t tmpfs -o size=2m none "$1" || exit 99
cp prompts.parquet "$1"; shift
"$@"; echo "first $?"
mount -o remount,size=200m disk || exit 99
"$@"; echo "second $?"
cp -r disk/run run
"""


def may_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", str(folder)]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.root  # without it, a kernel refuses to give a mounted disk another size
async def test_a_full_disk_is_reported_and_work_goes_on_later(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "place", 4 * PART).write()
    disk = place.folder / "disk"
    disk.mkdir()
    if not await asyncio.to_thread(may_mount, disk):
        pytest.skip("no mount namespaces here")
    async with endpoint(seconds=0, size=3000) as server:
        arguments = RunFolder(disk, place.rows).arguments(server)
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--map-root-user", "sh", "-c", SMALL_DISK, "sh", "disk"),
            *(sys.executable, "-m", "steelyard.cli.main", *arguments),
            cwd=place.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    lines = out.decode().splitlines()
    assert "first 1" in lines, err.decode()
    assert "second 0" in lines, err.decode()
    assert "No space left on device. Make room and run the same command again" in err.decode()
    assert server.calls - place.rows < 2 * PART
    place.check()


async def test_a_refused_row_is_recorded_or_ends_the_run(tmp_path: Path) -> None:
    def refuses(_request: web.Request, row: int, _asked: int) -> web.StreamResponse | None:
        return web.json_response({"error": "too long"}, status=400) if row == 50 else None

    skipping, aborting = RunFolder(tmp_path / "skip", 200).write(), RunFolder(tmp_path / "abort", 200).write()
    async with endpoint(misbehaves=refuses) as server:
        skipped = await skipping.go(server)
        assert (skipped.status, server.asked[50]) == (3, 1)
        skipping.check(but=[50])
        shown = await ended(await skipping.start_any("eval", "show", str(skipping.run), "--errors"))
        assert (shown.status, shown.out) == (0, 'row 50: BadRequest: status 400: {"error": "too long"}\n')
        server.asked.clear()
        aborted = await aborting.go(server, "--bad-rows", "abort")
        assert (aborted.status, server.asked[50]) == (1, 1)
        assert "index 50" in aborted.said
        assert "too long" in aborted.said
        kept = server.calls
        assert (await aborting.go(server, "--bad-rows", "skip")).status == 3
    assert 50 < kept < 200
    assert 201 <= server.calls <= 201 + IN_FLIGHT, "the refused row, and what was in flight, is asked again"
    aborting.check(but=[50])
    assert MODEL in (aborting.run / "run.yaml").read_text()
