"""Promises of the bodies: nothing is lost on the way, in strict JSON."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError
from pydantic_core import to_json

from judge.model import CaseResult, Outcome, Role, Stage, Verdict
from judge.wire import (
    ClaimBody,
    InvitesBody,
    NewTokenBody,
    OutcomeBody,
    ProgressBody,
    RegisterBody,
)


def outcome_with(error: float | None) -> Outcome:
    result = CaseResult(
        "t1", Stage.TEST, False, Verdict.WRONG_ANSWER, {}, max_abs_error=error, max_rel_error=0.5
    )
    return Outcome(1, 1, Verdict.WRONG_ANSWER, "", results=(result,))


def strict(text: str | bytes) -> object:
    """Read JSON as other languages do: without Infinity and NaN."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize("error", [math.inf, -math.inf, math.nan, 1e308, 0.0, None])
def test_the_largest_error_survives_every_way_of_travelling(error: float | None) -> None:
    body = OutcomeBody.of(outcome_with(error))
    texts = (
        body.model_dump_json(),  # runner to server, and server to client
        to_json(body),  # the command line's --json
        json.dumps(body.model_dump(mode="json")),  # evaluator to worker
    )
    for text in texts:
        strict(text)
        told = OutcomeBody.model_validate_json(text).to_model().results[0].max_abs_error
        read = OutcomeBody.model_validate(json.loads(text)).to_model().results[0].max_abs_error
        # By its text, since a NaN equals nothing.
        assert str(told) == str(read) == str(error)


@pytest.mark.parametrize(
    "hidden",
    [
        *("\0", "\n", "\t", "\x1b[31m", "\u00ad", "\u200b", "\u200d", "\u2028", "\u202e", "\u2066"),
        *("\ufeff", "\u00a0", "\u3164", "\u115f", "\u2800", "\ufe0f", "\ue000", "\U000e0041"),
    ],
)
def test_no_name_or_label_hides_anything(hidden: str) -> None:
    name = f"a{hidden}b"
    for make in (
        lambda: RegisterBody(name=name),
        lambda: NewTokenBody(role=Role.RUNNER, label=name, device="cpu"),
        lambda: InvitesBody(count=1, team=name),
        lambda: ClaimBody(runner=name, problem_digests={}, isolation="full"),
        lambda: ProgressBody(stage=name),
    ):
        with pytest.raises(
            ValidationError, match=f"U\\+{ord(hidden[0]):04X}, which cannot be seen"
        ):
            make()


@pytest.mark.parametrize("name", ["Ada", "Zoë Müller-Łuk", "王小明", "नमिता", "a b_c.d #1 (x) 🚀"])
def test_names_of_people_anywhere_are_taken(name: str) -> None:
    assert RegisterBody(name=f"  {name} ").name == name
