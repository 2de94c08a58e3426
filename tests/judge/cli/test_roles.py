"""One command line for all roles, where no role loads another's libraries."""

import subprocess
import sys

import pytest

from judge.cli import full_commands, knows, own_commands, path_of


def loaded_for(*words: str) -> set[str]:
    """Top-level modules that are loaded once the command of these words is found."""
    script = (
        "import sys; from judge.cli import full_commands, knows, path_of\n"
        "words = sys.argv[1:]; app = full_commands(words); assert knows(app, path_of(words))\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("command", "foreign"),
    [
        ("status", {"torch", "fastapi", "sqlalchemy", "runners", "leaderboard"}),
        ("serve", {"torch", "runners"}),
        ("up", {"torch", "runners"}),
        ("work", {"fastapi", "sqlalchemy", "leaderboard"}),
    ],
)
def test_a_role_loads_no_other_roles_libraries(command: str, foreign: set[str]) -> None:
    assert not loaded_for(command) & foreign


def test_an_options_value_is_not_taken_for_a_command() -> None:
    assert path_of(["problems", "--server", "http://check", "--json", "show", "topk"]) == [
        "problems",
        "show",
        "topk",
    ]


def test_groups_of_two_roles_become_one() -> None:
    everything = full_commands([])
    for path in (
        ["problems"],
        ["problems", "show"],
        ["problems", "check"],
        ["admin", "local-token"],
    ):
        assert knows(everything, path), path
    assert not knows(own_commands(), ["problems", "check"])
    assert not knows(everything, ["frobnicate"])
