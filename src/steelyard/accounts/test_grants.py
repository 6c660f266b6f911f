"""Grants as a naive reading has them, and as the published schema does."""

from itertools import product
from typing import get_args

import pytest
from dyff.schema.platform import AccessGrant as PublishedGrant
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounts.grants import allows, common, covers, scope
from steelyard_schema.account import AccessGrant, APIFunction, APIResource

RESOURCES: list[APIResource] = ["datasets", "models"]
FUNCTIONS: list[APIFunction] = ["get", "edit"]
ACCOUNTS = ["a", "b"]
ENTITIES = ["1", "2"]


def grant(resources: str, functions: str, accounts: str = "", entities: str = "") -> AccessGrant:
    return AccessGrant.parse(
        {
            "resources": resources.split(),
            "functions": functions.split(),
            "accounts": accounts.split(),
            "entities": entities.split(),
        }
    )


def some(words: list[str], least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([*words, "*"]), min_size=least, max_size=2, unique=True)


single = st.builds(
    lambda *parts: grant(*map(" ".join, parts)),
    some([*RESOURCES], 1), some([*FUNCTIONS], 1), some(ACCOUNTS), some(ENTITIES),
)  # fmt: skip
several = st.lists(single, max_size=3)
Question = tuple[APIResource, APIFunction, str, str]
QUESTIONS: list[Question] = list(product(RESOURCES, FUNCTIONS, [*ACCOUNTS, "c"], [*ENTITIES, "3"]))


def published(grants: list[AccessGrant], question: Question) -> bool:
    """Any grant that allows, as the published schema says, the account's entities or this entity."""
    resource, function, account, entity = question
    requests = [
        PublishedGrant.model_validate({"resources": [resource], "functions": [function], **rest})
        for rest in ({"accounts": [account]}, {"entities": [entity]})
    ]
    return any(
        PublishedGrant.model_validate(grant.dump()).allows(one) for grant in grants for one in requests
    )


@pytest.mark.parametrize(
    ("given", "question", "allowed"),
    [
        ("datasets get a", ("datasets", "get", "a", "1"), True),
        ("datasets get a", ("datasets", "get", "b", "1"), False),
        ("datasets get a", ("datasets", "edit", "a", "1"), False),
        ("datasets get a", ("models", "get", "a", "1"), False),
        ("* * *", ("models", "edit", "c", "3"), True),
        ("datasets get", ("datasets", "get", "a", "1"), False),
    ],
)
def test_a_grant_allows_its_functions_of_its_resources_for_its_accounts(
    given: str, question: Question, allowed: bool
) -> None:
    assert allows([grant(*given.split())], *question) is allowed


def test_a_single_entity_is_allowed_whichever_account_owns_it() -> None:
    grants = [grant("datasets", "get", "", "1")]
    assert allows(grants, "datasets", "get", "anybody", "1")
    assert not allows(grants, "datasets", "get", "anybody", "2")


@settings(deadline=None)
@given(several)
def test_allows_agrees_with_the_published_schema(grants: list[AccessGrant]) -> None:
    for question in QUESTIONS:
        assert allows(grants, *question) == published(grants, question)
        assert scope(grants, *question[:2]).covers(*question[2:]) == published(grants, question)


@settings(deadline=None)
@given(several, several)
def test_what_is_covered_allows_nothing_more(
    permissions: list[AccessGrant], requests: list[AccessGrant]
) -> None:
    if covers(permissions, requests):
        for question in QUESTIONS:
            assert allows(permissions, *question) or not allows(requests, *question)
            assert allows(common(requests, permissions), *question) == allows(requests, *question)


@settings(deadline=None)
@given(single, single)
def test_one_grant_covers_what_the_published_one_allows(
    permission: AccessGrant, requested: AccessGrant
) -> None:
    theirs = PublishedGrant.model_validate(permission.dump())
    assert covers([permission], [requested]) == theirs.allows(PublishedGrant.model_validate(requested.dump()))


@settings(deadline=None)
@given(several, several)
def test_what_is_common_is_allowed_by_both(one: list[AccessGrant], other: list[AccessGrant]) -> None:
    both = common(one, other)
    for question in QUESTIONS:
        if allows(both, *question):
            assert allows(one, *question)
            assert allows(other, *question)


@pytest.mark.parametrize(
    ("permissions", "requested", "covered"),
    [
        (["datasets get a", "models get a"], "datasets,models get a", True),
        (["datasets get a", "models get b"], "datasets,models get a", False),
        (["datasets get a", "datasets edit a"], "datasets get,edit a", True),
        (["datasets get a", "datasets get b"], "datasets get a,b", True),
        (["datasets get a"], "* get a", False),
        (["datasets get a"], "datasets get *", False),
        (["datasets get *"], "datasets get a,b", True),
        (["datasets get a"], "models get", False),
        ([], "models get a", False),
    ],
)
def test_permissions_cover_what_they_allow_together(
    permissions: list[str], requested: str, covered: bool
) -> None:
    def parsed(text: str) -> AccessGrant:
        return grant(*(part.replace(",", " ") for part in text.split()))

    assert covers([parsed(permission) for permission in permissions], [parsed(requested)]) is covered


def test_the_published_schema_knows_the_same_words() -> None:
    for resource, function in product(get_args(APIResource), get_args(APIFunction)):
        ours = grant(resource, function, "a")
        assert PublishedGrant.model_validate(ours.dump()).allows(PublishedGrant.model_validate(ours.dump()))
