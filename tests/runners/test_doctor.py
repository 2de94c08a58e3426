"""What the doctor says about machines, real and made up."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from runners.doctor import Facts, Finding, Level, closed_parent, diagnose, findings
from runners.ports import Isolation

GOOD = Facts(
    root=True,
    cores=4,
    bubblewrap=(0, 11, 0),
    setpriv=True,
    libseccomp=True,
    compiler="g++ 12.2.0",
    userns_apparmor=None,
    userns_clone=None,
    userns_most="96365",
    cgroup2=True,
    python="/opt/judge/bin/python",
    unreadable=None,
    isolation=Isolation("full", freezer=True, own_uid=True),
    box_error="",
)
USER = replace(
    GOOD,
    root=False,
    isolation=Isolation(
        "reduced",
        freezer=False,
        own_uid=False,
        reasons=("boxes share the runner's user id: x", "boxes cannot be frozen: delegate a tree"),
    ),
)


def faults(facts: Facts) -> list[Finding]:
    return [finding for finding in findings(facts) if finding.level is not Level.OK]


def test_a_good_machine_has_no_faults_and_says_what_is_good() -> None:
    assert faults(GOOD) == []
    assert {finding.subject for finding in findings(GOOD)} >= {"bubblewrap", "box", "cores"}


@pytest.mark.parametrize(
    ("facts", "level", "fact", "remedy"),
    [
        (replace(GOOD, bubblewrap=None), Level.MISSING, "not found", "install bubblewrap"),
        (replace(GOOD, bubblewrap=(0, 4, 1)), Level.MISSING, "0.4.1", "install bubblewrap"),
        (replace(GOOD, setpriv=False), Level.MISSING, "setpriv", "util-linux"),
        (replace(GOOD, libseccomp=False), Level.MISSING, "libseccomp", "libseccomp2"),
        (replace(GOOD, compiler=None), Level.REDUCED, "g++", "install g++"),
        (replace(GOOD, cores=1), Level.REDUCED, "one core", "two cores"),
        (replace(GOOD, cgroup2=False), Level.REDUCED, "no cgroup2", "as root"),
        (USER, Level.REDUCED, "ordinary user", "as root"),
        (USER, Level.REDUCED, "cannot be frozen", "delegate"),
        (
            replace(USER, userns_apparmor="1", box_error="Permission denied"),
            Level.MISSING,
            "AppArmor",
            "bwrap-userns-restrict",
        ),
        (replace(USER, userns_clone="0"), Level.MISSING, "unprivileged_userns_clone", "sysctl"),
        (replace(USER, userns_most="0"), Level.MISSING, "max_user_namespaces", "sysctl"),
        (replace(USER, unreadable="/root"), Level.MISSING, "below /root", "/opt"),
        (replace(GOOD, box_error="no space"), Level.MISSING, "no space", ""),
    ],
)
def test_every_lack_is_told_with_its_remedy(
    facts: Facts, level: Level, fact: str, remedy: str
) -> None:
    assert any(
        finding.level is level and fact in finding.fact and remedy in finding.remedy
        for finding in faults(facts)
    )


def test_every_fault_has_a_remedy() -> None:
    for facts in (GOOD, USER, replace(USER, bubblewrap=None, unreadable="/root", cores=1)):
        assert all(finding.remedy for finding in faults(facts))


def test_an_apparmor_rule_that_does_not_hinder_is_no_fault() -> None:
    subjects = [finding.subject for finding in faults(replace(USER, userns_apparmor="1"))]
    assert "user namespaces" not in subjects


def test_root_is_not_bothered_with_what_concerns_ordinary_users() -> None:
    assert faults(replace(GOOD, userns_clone="0", unreadable="/root")) == []


def test_a_directory_that_others_cannot_enter_is_found_outermost_first() -> None:
    with tempfile.TemporaryDirectory() as home:
        program = Path(home) / "inner" / "python"
        program.parent.mkdir(mode=0o700)
        program.touch()
        assert closed_parent(program) == home
        Path(home).chmod(0o755)
        assert closed_parent(program) == str(program.parent)
        program.parent.chmod(0o755)
        assert closed_parent(program) is None


@pytest.mark.box
def test_this_machine_can_be_examined() -> None:
    found = diagnose()
    assert found[0].subject == "bubblewrap"
    assert found[-1].subject == "box"


@pytest.mark.parametrize(("cores", "told"), [(2, "1 runner,"), (3, "1 runner,"), (8, "4 runners,")])
def test_it_says_how_many_runners_fit(cores: int, told: str) -> None:
    (found,) = (f for f in findings(replace(GOOD, cores=cores)) if f.subject == "cores")
    assert told in found.fact
