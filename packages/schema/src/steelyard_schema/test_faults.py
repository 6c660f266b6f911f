"""Faults of a validation are reported in one line, each with its path, its value and what is allowed."""

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from steelyard_schema.faults import exception_text, faults_text


class Step(BaseModel):
    """A configuration with one field."""

    model_config = ConfigDict(extra="forbid")

    size: int


WRONG = """spec.size: should be a valid integer, unable to parse string as an integer, and is 'x'; \
spec.sise: is not a field here, with the value 2; there are size"""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"size": "x", "sise": 2}, WRONG),
        ({}, "spec.size: is missing"),
        ([], "spec: should be an object with fields such as size"),
    ],
)
def test_all_faults_in_one_line(content: object, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        Step.model_validate(content)
    assert faults_text(error.value, "spec.", Step) == text


class Login(BaseModel):
    """A configuration with secrets."""

    model_config = ConfigDict(extra="forbid")

    user: int = 0
    password: SecretStr | None = None
    keys: dict[str, SecretStr] = {}


class Logins(BaseModel):
    """Configurations with secrets, one within another."""

    model_config = ConfigDict(extra="forbid")

    login: Login


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            {"login": {"user": "me"}},
            "login.user: should be a valid integer, unable to parse string as an integer, and is 'me'",
        ),
        ({"login": {"password": 12345}}, "login.password: should be a valid string"),
        ({"login": {"keys": "12345"}}, "login.keys: should be a valid dictionary"),
        ({"login": {"keys": {"a": 12345}}}, "login.keys.a: should be a valid string"),
        (
            {"login": {"pasword": "12345"}},
            "login.pasword: is not a field here; there are keys, password, user",
        ),
        ({"login": {}, "logins": 1}, "logins: is not a field here, with the value 1; there are login"),
    ],
    ids=[
        "no secret",
        "a secret",
        "a table of secrets",
        "a secret in a table",
        "a misspelt one",
        "a part without secrets",
    ],
)
def test_what_may_be_a_secret_is_not_repeated(content: object, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        Logins.model_validate(content)
    assert faults_text(error.value, model=Logins) == text


def test_an_exception_is_reported_in_one_line() -> None:
    with pytest.raises(ValidationError) as error:
        Step.model_validate({"size": 1, "sise": 2})
    assert exception_text(error.value) == "ValidationError: sise: is not a field here, with the value 2"
    assert exception_text(ValueError("no")) == "ValueError: no"
    assert exception_text(MemoryError()) == "MemoryError"
