"""Cases of the published client's methods about challenges and teams."""

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from tests.platform_api.published import ACCOUNT, Laboratory

if TYPE_CHECKING:
    from collections.abc import Callable

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.client.errors import HTTPError
    from dyff.schema import commands, platform, requests

_SMALL = {"cpu": "1", "memory": "1Gi"}


def a_task(lab: Laboratory, challenge: str, name: str = "easy", **rules: Any) -> Any:
    """Create a task by the published client."""
    pipeline = lab.post("pipelines", **lab.assessment())["id"]
    request = requests.ChallengeTaskCreateRequest(
        account=ACCOUNT,
        challenge=challenge,
        name=name,
        assessment=pipeline,
        rules=platform.ChallengeTaskRules.model_validate(
            {"executionEnvironment": {"choices": {"small": _SMALL}}, **rules}
        ),
    )
    return lab.api.challenges.create_task(challenge, request)


def a_team(lab: Laboratory, challenge: str) -> Any:
    """Create a team by the published client."""
    person = platform.TeamMember(name="Rusty", isCorrespondingMember=True, affiliations=["venture"])
    request = requests.ChallengeTeamCreateRequest(
        account=ACCOUNT,
        name="Team Venture",
        members={"rusty": person},
        affiliations={"venture": platform.TeamAffiliation(name="Venture Industries")},
    )
    return lab.api.challenges.create_team(challenge, request)


def tasks(lab: Laboratory) -> None:
    challenge = lab.make("Challenge")
    made = a_task(lab, challenge)
    assert lab.api.challenges.get(challenge).tasks[made.id].model_dump() == made.model_dump()


def content(lab: Laboratory) -> None:
    challenge = lab.make("Challenge")
    task = a_task(lab, challenge)
    page = commands.ChallengeContentPagePatch(summary="", body="body")
    edit = requests.ChallengeContentEditRequest(content=commands.ChallengeContentPatch(page=page))
    lab.api.challenges.edit_content(challenge, edit)
    lab.api.challenges.edit_task_content(challenge, task.id, edit)
    after = lab.api.challenges.get(challenge)
    for page in (after.content.page, after.tasks[task.id].content.page):
        assert (page.title, page.summary, page.body) == ("Untitled Challenge", "", "body")


def rules(lab: Laboratory) -> None:
    challenge = lab.make("Challenge")
    task = a_task(lab, challenge)
    teams = {"visibility": {"teams": {"nobody": None, "t": "public"}}}
    edit = requests.ChallengeRulesEditRequest.model_validate({"rules": teams})
    lab.api.challenges.edit_rules(challenge, edit)
    changes = {
        "executionEnvironment": {"choices": {"small": None, "default": _SMALL}},
        "schedule": {"openingTime": None, "submissionLimitPerCycle": 3},
        "visibility": {"scores": {"m": {"a": None}, "*": None}, "submit": "hidden"},
    }
    of_one = requests.ChallengeTaskRulesEditRequest.model_validate({"rules": changes})
    lab.api.challenges.edit_task_rules(challenge, task.id, of_one)
    after = lab.api.challenges.get(challenge)
    assert after.rules.visibility.teams == {"t": "public"}
    of_task = after.tasks[task.id].rules
    assert list(of_task.executionEnvironment.choices) == ["default"]
    assert (of_task.schedule.submissionLimitPerCycle, of_task.visibility.submit) == (3, "hidden")
    assert after.tasks[task.id].assessment == task.assessment


def decisions(lab: Laboratory) -> None:
    challenge = lab.make("Challenge")
    team = a_team(lab, challenge)
    assert (team.status, team.challenge) == ("WaitingForApproval", challenge)
    lab.api.challenges.approve_team(challenge, team.id)
    assert [(one.id, one.status) for one in lab.api.challenges.teams(challenge)] == [(team.id, "Active")]
    lab.api.challenges.deny_team(challenge, team.id)
    assert lab.api.teams.get(team.id).status == "EntryDenied"


def team_edits(lab: Laboratory) -> None:
    team = a_team(lab, lab.make("Challenge"))
    hank = platform.TeamMember(name="Hank", isCorrespondingMember=False)
    edit = requests.TeamEditRequest(members={"rusty": None, "hank": hank})
    lab.api.teams.edit(team.id, edit)
    after = lab.api.teams.get(team.id)
    assert (after.name, after.members) == ("Team Venture", {"hank": hank})


def team_queries(lab: Laboratory) -> None:
    challenge = lab.make("Challenge")
    team = a_team(lab, challenge)
    assert [one.id for one in lab.api.teams.query(challenge=challenge)] == [team.id]
    assert lab.api.teams.query(challenge=challenge, status="Active") == []


def submissions(lab: Laboratory) -> None:
    """Play what the original documents: within the limit of a cycle, beyond it, and the end of a submission."""
    challenge = lab.make("Challenge")
    task, team = a_task(lab, challenge), a_team(lab, challenge)
    service = platform.EntityIdentifier(id=lab.make("InferenceService"), kind="InferenceService")
    request = requests.SubmissionCreateRequest(account=ACCOUNT, team=team.id, submission=service)
    with pytest.raises(HTTPError, match="403"):  # not approved yet
        lab.api.challenges.submit(challenge, task.id, request)
    lab.api.challenges.approve_team(challenge, team.id)
    made = lab.api.challenges.submit(challenge, task.id, request)
    assert (made.status, made.challenge, made.task, made.team) == ("Created", challenge, task.id, team.id)
    assert set(lab.api.pipelines.get_run(made.pipelineRun).workflows) == {"ask"}
    beyond = lab.api.challenges.submit(challenge, task.id, request)
    assert (beyond.status, beyond.reason) == ("Error", "RateLimitExceeded")
    assert lab.api.pipelines.get_run_status(beyond.pipelineRun).status == "Failed"
    ignored = platform.QuotaSelector(principal="*", resource="*", flavor="*")
    again = requests.ResubmissionRequest(
        account=ACCOUNT, securityContext=platform.SecurityContext(ignoreQuotas=[ignored])
    )
    resubmitted = lab.api.submissions.resubmit(beyond.id, again)
    assert (resubmitted.status, resubmitted.resubmissionOf) == ("Created", beyond.id)
    lab.api.submissions.terminate(made.id)
    assert lab.api.submissions.get(made.id).status == "Terminated"
    assert lab.api.pipelines.get_run_status(made.pipelineRun).status == "Terminated"
    assert lab.api.submissions.downlinks(made.id) == {}
    lab.api.submissions.download(made.id, lab.folder / made.id)
    for filters in ({"team": team.id}, {"task": task.id}, {"challenge": challenge}):
        assert len(lab.api.submissions.query(**filters)) == 3
    listed = lab.api.submissions.query(pipelineRun=made.pipelineRun)
    assert [submission.id for submission in listed] == [made.id]


CHALLENGES: "dict[Callable[[Laboratory], Any], tuple[str, ...]]" = {
    tasks: ("challenges.create_task",),
    content: ("challenges.edit_content", "challenges.edit_task_content"),
    rules: ("challenges.edit_rules", "challenges.edit_task_rules"),
    decisions: tuple(f"challenges.{name}" for name in ("create_team", "approve_team", "deny_team", "teams")),
    team_edits: ("teams.edit",),
    team_queries: ("teams.query",),
    submissions: (
        "challenges.submit",
        *(
            f"submissions.{name}"
            for name in ("get", "query", "resubmit", "terminate", "downlinks", "download")
        ),
    ),
}
"""Cases about several methods, which need each other."""
