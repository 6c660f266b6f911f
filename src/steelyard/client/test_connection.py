"""Tests of the client's configuration: where it searches for the platform, and which token goes where."""

import json
from pathlib import Path

import pytest

from steelyard.client.connection import Connection, find
from steelyard.client.errors import NotConfigured

OURS = {"STEELYARD_API_ENDPOINT": "http://ours/v0", "STEELYARD_API_TOKEN": "our-token"}
THEIRS = {"DYFF_API_ENDPOINT": "http://theirs/v0", "DYFF_API_TOKEN": "their-token"}
HERE, HOME = "./.steelyard", "home/steelyard"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_here(folder: Path, place: str, api: str | None, token: str = "ready-token") -> None:
    path = folder / place / "ready.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"api": api, "token": token, "kubeconfig": "/k", "pid": 1}))


def endpoint_and_token(folder: Path, environment: dict[str, str], **arguments: str) -> tuple[str, str]:
    connection = find(**arguments, environment={"XDG_STATE_HOME": str(folder / "home"), **environment})
    return connection.endpoint, connection.token


PLACES = {
    "arguments go before all": (
        {**OURS, **THEIRS},
        {"endpoint": "http://a/v0", "token": "t"},
        ("http://a/v0", "t"),
    ),
    "ours go before theirs": ({**OURS, **THEIRS}, {}, ("http://ours/v0", "our-token")),
    "theirs will do": (THEIRS, {}, ("http://theirs/v0", "their-token")),
    "a token of ours alone is for any address": (
        {"STEELYARD_API_TOKEN": "t", "DYFF_API_ENDPOINT": "http://theirs/v0"},
        {},
        ("http://theirs/v0", "t"),
    ),
    "an address alone, a token given": (OURS, {"token": "t"}, ("http://ours/v0", "t")),
    "a slash at the end": ({}, {"endpoint": "http://a/v0/", "token": " t\n"}, ("http://a/v0", "t")),
    "the same address in another place": (
        OURS,
        {"endpoint": "http://ours/v0"},
        ("http://ours/v0", "our-token"),
    ),
    "an empty variable behind an argument": (
        {"STEELYARD_API_TOKEN": "", "STEELYARD_API_ENDPOINT": ""},
        {"endpoint": "http://a/v0", "token": "t"},
        ("http://a/v0", "t"),
    ),
}

EMPTY = {
    "our token": ({**OURS, "STEELYARD_API_TOKEN": ""}, {}, "STEELYARD_API_TOKEN is set and empty"),
    "our token alone, where something runs": (
        {"STEELYARD_API_TOKEN": " \n"},
        {},
        "STEELYARD_API_TOKEN is set and empty",
    ),
    "our token before theirs": (
        {**THEIRS, "STEELYARD_API_TOKEN": ""},
        {},
        "STEELYARD_API_TOKEN is set and empty",
    ),
    "their token": ({**THEIRS, "DYFF_API_TOKEN": ""}, {}, "DYFF_API_TOKEN is set and empty"),
    "our address": ({**THEIRS, "STEELYARD_API_ENDPOINT": ""}, {}, "STEELYARD_API_ENDPOINT is set and empty"),
    "their address": ({"DYFF_API_ENDPOINT": " "}, {}, "DYFF_API_ENDPOINT is set and empty"),
    "the token given": (OURS, {"token": ""}, r"token \(--token\) is set and empty"),
    "the address given": (OURS, {"endpoint": ""}, r"endpoint \(--endpoint\) is set and empty"),
}


@pytest.mark.parametrize(("environment", "arguments", "words"), EMPTY.values(), ids=EMPTY)
def test_what_is_set_and_empty_is_an_error(
    environment: dict[str, str], arguments: dict[str, str], words: str, folder: Path
) -> None:
    """The local platform's token, an administrator's, must not stand in for one that got lost."""
    run_here(folder, HERE, "http://127.0.0.1:1/v0")
    with pytest.raises(NotConfigured, match=words):
        endpoint_and_token(folder, environment, **arguments)


@pytest.mark.parametrize(("environment", "arguments", "expected"), PLACES.values(), ids=PLACES)
def test_the_first_place_counts(
    environment: dict[str, str], arguments: dict[str, str], expected: tuple[str, str], folder: Path
) -> None:
    assert endpoint_and_token(folder, environment, **arguments) == expected


def test_what_runs_here_goes_before_what_runs_at_home(folder: Path) -> None:
    run_here(folder, HOME, "http://127.0.0.1:2/v0", "home-token")
    assert endpoint_and_token(folder, {}) == ("http://127.0.0.1:2/v0", "home-token")
    run_here(folder, HERE, "http://127.0.0.1:1/v0")
    assert endpoint_and_token(folder, {}) == ("http://127.0.0.1:1/v0", "ready-token")


def test_what_does_not_serve_is_passed_over(folder: Path) -> None:
    run_here(folder, HERE, None)
    run_here(folder, HOME, "http://127.0.0.1:2/v0", "home-token")
    assert endpoint_and_token(folder, {}) == ("http://127.0.0.1:2/v0", "home-token")


def test_what_runs_here_is_not_sent_anothers_token(folder: Path) -> None:
    run_here(folder, HERE, "http://127.0.0.1:1/v0")
    assert endpoint_and_token(folder, {"DYFF_API_TOKEN": "their-token"}) == (
        "http://127.0.0.1:1/v0",
        "ready-token",
    )
    assert endpoint_and_token(folder, {"STEELYARD_API_TOKEN": "t"}) == ("http://127.0.0.1:1/v0", "t")


ELSEWHERE = {
    "a token of ours": ({**OURS}, {"endpoint": "http://evil/v0"}),
    "a token of theirs": ({**THEIRS}, {"endpoint": "http://evil/v0"}),
    "what runs here": ({}, {"endpoint": "http://evil/v0"}),
    "theirs to ours": ({**THEIRS, "STEELYARD_API_ENDPOINT": "http://ours/v0"}, {}),
}


@pytest.mark.parametrize(("environment", "arguments"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_token_goes_nowhere_but_to_its_address(
    environment: dict[str, str], arguments: dict[str, str], folder: Path
) -> None:
    run_here(folder, HERE, "http://127.0.0.1:1/v0")
    with pytest.raises(NotConfigured, match="no token of a platform for http://"):
        endpoint_and_token(folder, environment, **arguments)


def test_all_places_that_were_searched_are_named(folder: Path) -> None:
    run_here(folder, HERE, None)
    with pytest.raises(NotConfigured) as caught:
        endpoint_and_token(folder, {})
    for place in (
        "--endpoint, or --state-dir",
        "the arguments",
        "STEELYARD_API_ENDPOINT and STEELYARD_API_TOKEN",
        "DYFF_API_ENDPOINT and DYFF_API_TOKEN",
        ".steelyard/ready.json, of which no API runs",
        f"{folder}/home/steelyard/ready.json, which is not there",
        "steelyard up",
    ):
        assert place in str(caught.value)


def test_a_file_that_is_not_one_is_passed_over(folder: Path) -> None:
    run_here(folder, HERE, "http://127.0.0.1:1/v0")
    (folder / HERE / "ready.json").write_text("{")
    with pytest.raises(NotConfigured, match="cannot be read"):
        endpoint_and_token(folder, {})


def test_an_address_is_one(folder: Path) -> None:
    with pytest.raises(NotConfigured, match="the arguments: 'localhost:8000' should begin with http"):
        endpoint_and_token(folder, OURS, endpoint="localhost:8000")


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [("http://127.0.0.1:1/v0", True), ("http://localhost/v0", True), ("http://[::1]:1/v0", True),
     ("https://api.example/v0", False), ("http://10.0.0.1/v0", False)],
)  # fmt: skip
def test_what_is_on_this_machine_needs_no_proxy(endpoint: str, local: bool) -> None:
    assert Connection(endpoint, "t").is_local is local
