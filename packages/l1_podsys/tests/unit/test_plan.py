"""The plan is a function of (desired, facts): what differs, in words, and nothing that does not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from l1_podsys.api import BadInput, Conflict
from l1_podsys.core.facts import Facts
from l1_podsys.core.inventory import Inventory, parse
from l1_podsys.core.planning import (
    HostPlan,
    Plan,
    Profile,
    Sources,
    desired_state,
    make_plan,
    plan_host,
    remaining,
)
from l1_podsys.core.planning.desired import Desired, fill, questions_for
from l1_podsys.core.planning.resources import Deb, Wheel, digest_text

INVENTORY = """
cluster: c
hosts:
  - {id: n1, hostname: node1, address: 10.1.0.1, addresses: {compute: 10.2.0.1}}
  - {id: n2, hostname: node2, address: 10.1.0.2, addresses: {compute: 10.2.0.2}}
"""
PROFILE: dict[str, Any] = {
    "name": "p",
    "os": {"sysctl": {"vm.swappiness": 10}, "limits": [{"item": "memlock", "value": "unlimited"}]},
    "hosts_file": {"domain": "lab"},
    "users": [
        {"name": "alice", "uid": 2001, "groups": ["video"], "keys": ["ssh-ed25519 AAAA a"], "sudo": True}
    ],
    "time": {"timezone": "Asia/Shanghai"},
    "node_exporter": {},
    "python_services": [
        {
            "name": "agent", "wheel": "a.whl", "python": "/venv/bin/python",
            "command": ["-m", "a", "--node", "{id}"], "environment": {"ADDRESS": "{address.compute}"},
            "secrets": {"TOKEN": "t"},
        }
    ],
}  # fmt: skip
SOURCES = Sources(
    key=b"k" * 32,
    secrets={("agent", "TOKEN"): "hush"},
    wheels={"a.whl": ("a-1.whl", "ab" * 32)},
    closures={"prometheus-node-exporter": [
        Deb(package="prometheus-node-exporter", version="1.5.0-1", file="pne.deb", sha256="cd" * 32),
        Deb(package="adduser", version="3.1", file="adduser.deb", sha256="ef" * 32),
    ]},
)  # fmt: skip


def bare_facts(**answers: Any) -> Facts:
    """A host that has nothing of what is wanted."""
    return Facts.model_validate(
        {
            "schema": "podsys.facts/v1", "hostname": "node1", "os": {"id": "debian", "name": "Debian"},
            "kernel": "6.1", "arch": "x86_64", "cpu": {"cores": 2}, "memory": {"total_bytes": 1},
            "python": "3.11.2",
            "answers": {"sysctl": {"vm.swappiness": {"value": "60", "settable": True}}} | answers,
        }
    )  # fmt: skip


def wanted(profile: dict[str, Any] = PROFILE) -> tuple[Inventory, Desired]:
    inventory = parse(INVENTORY)
    return inventory, desired_state(inventory, Profile.model_validate(profile), inventory.hosts[0], SOURCES)


def satisfied_facts(desired: Desired) -> Facts:
    """A host that has all of it, said as the probe says it."""
    files: dict[str, Any] = {}
    answers: dict[str, Any] = {"files": files, "units": {}, "users": {}, "packages": {}, "sysctl": {}}
    for _, resource in desired.placed:
        if resource.kind == "file":
            rights = {"mode": resource.mode, "owner": resource.owner, "group": resource.group}
            files[resource.path] = {"kind": "file", "digest": resource.digest, **rights}
        elif resource.kind == "link":
            files[resource.path] = {"kind": "link", "target": resource.target}
        elif resource.kind == "sysctl":
            answers["sysctl"][resource.name] = {"value": resource.value, "settable": True}
        elif resource.kind == "user":
            state = {
                "uid": resource.uid,
                "home": resource.home,
                "shell": resource.shell,
                "groups": resource.groups,
            }
            answers["users"][resource.name] = state
        elif resource.kind == "package":
            answers["packages"][resource.name] = resource.version
        elif resource.kind == "unit":
            answers["units"][resource.name] = {"load": "loaded", "active": "active", "enabled": "enabled"}
        elif isinstance(resource, Wheel):
            files[resource.mark] = {"kind": "file", "digest": digest_text(resource.sha256 + "\n")}
    return bare_facts(**answers)


def test_a_bare_host_differs_in_everything() -> None:
    _, desired = wanted()
    plan = plan_host("n1", "node1", desired, bare_facts())
    assert len(plan.changes) == len(desired.placed)
    assert plan.roles() == ["os_settings", "hosts_file", "users", "time", "node_exporter", "python_services"]


def test_a_host_that_has_all_of_it_differs_in_nothing() -> None:
    _, desired = wanted()
    assert plan_host("n1", "node1", desired, satisfied_facts(desired)).changes == []


def test_only_what_was_changed_by_hand_is_planned() -> None:
    _, desired = wanted()
    facts = satisfied_facts(desired)
    path = "/etc/sysctl.d/90-podsys.conf"
    facts.answers.files[path] = facts.answers.files[path].model_copy(
        update={"digest": digest_text("other"), "text": "vm.swappiness = 99\n"}
    )
    (change,) = plan_host("n1", "node1", desired, facts).changes
    assert (change.role, change.resource.name, change.before) == ("os_settings", path, "other content")
    assert "-vm.swappiness = 99" in change.diff
    assert "+vm.swappiness = 10" in change.diff


@pytest.mark.parametrize("field", ["mode", "owner", "group"])
def test_rights_of_a_file_count(field: str) -> None:
    _, desired = wanted()
    facts = satisfied_facts(desired)
    path = "/etc/podsys/agent.env"
    facts.answers.files[path] = facts.answers.files[path].model_copy(update={field: "0666"})
    (change,) = plan_host("n1", "node1", desired, facts).changes
    assert change.resource.name == path


def test_a_setting_that_a_container_cannot_set_is_a_note_not_a_difference() -> None:
    _, desired = wanted()
    facts = satisfied_facts(desired)
    facts.answers.sysctl["vm.swappiness"] = facts.answers.sysctl["vm.swappiness"].model_copy(
        update={"value": "60", "settable": False}
    )
    plan = plan_host("n1", "node1", desired, facts)
    assert plan.changes == []
    assert "next boot" in plan.notes[0]


def test_a_failed_unit_is_planned_with_its_log() -> None:
    _, desired = wanted()
    facts = satisfied_facts(desired)
    state = facts.answers.units["agent.service"]
    facts.answers.units["agent.service"] = state.model_copy(
        update={"active": "failed", "log": ["Traceback", "KeyError"]}
    )
    (change,) = plan_host("n1", "node1", desired, facts).changes
    assert "failed" in change.before
    assert "KeyError" in change.diff


def plan_on(day: int, inventory: Inventory, host: HostPlan) -> Plan:
    return make_plan(
        made_at=datetime(2026, 1, day, tzinfo=UTC),
        inventory=inventory,
        profile=Profile.model_validate(PROFILE),
        base="/",
        files={},
        hosts=[host],
    )


def test_no_secret_is_in_a_plan_or_a_question() -> None:
    inventory, desired = wanted()
    host = plan_host("n1", "node1", desired, bare_facts())
    plan = plan_on(1, inventory, host)
    assert "hush" not in str(plan.as_json())
    assert "hush" not in str(questions_for(desired, SOURCES, shared_path=None))
    assert any(b"hush" in text for text in desired.private.values())


def test_a_plan_is_equal_to_its_json_and_named_by_content_not_by_time() -> None:
    inventory, desired = wanted()
    host = plan_host("n1", "node1", desired, bare_facts())
    plans = [plan_on(day, inventory, host) for day in (1, 2)]
    assert plans[0].digest() == plans[1].digest()
    assert type(plans[0]).model_validate(plans[0].as_json()) == plans[0]


def test_placeholders_are_filled_and_braces_left_alone() -> None:
    host = parse(INVENTORY).hosts[1]
    assert fill("{id} {hostname} {address} {address.compute}", host) == "n2 node2 10.1.0.2 10.2.0.2"
    assert fill('{"a": "{other}"} {{ 7*7 }}', host) == '{"a": "{other}"} {{ 7*7 }}'


def test_names_of_all_hosts_and_their_segments() -> None:
    _, desired = wanted()
    hosts_file = next(r for _, r in desired.placed if r.name == "/etc/hosts")
    assert hosts_file.kind == "file"
    assert hosts_file.content is not None
    assert hosts_file.content.splitlines() == [
        "10.1.0.1 node1.lab node1",
        "10.2.0.1 node1-compute",
        "10.1.0.2 node2.lab node2",
        "10.2.0.2 node2-compute",
    ]


def test_only_missing_dependencies_are_sent() -> None:
    _, desired = wanted()
    package = next(r for _, r in desired.placed if r.kind == "package")
    assert [d.package for d in package.needed(bare_facts(packages={"adduser": "2.0"}))] == [
        "prometheus-node-exporter"
    ]
    assert len(package.needed(bare_facts())) == 2


def test_a_plan_that_was_overtaken_is_stale() -> None:
    _, desired = wanted()
    planned = plan_host("n1", "node1", desired, satisfied_facts(desired))
    now = plan_host("n1", "node1", desired, bare_facts())
    with pytest.raises(Conflict, match="stale"):
        remaining(planned, now)


def test_what_is_done_meanwhile_does_not_make_it_stale() -> None:
    _, desired = wanted()
    planned = plan_host("n1", "node1", desired, bare_facts())
    now = plan_host("n1", "node1", desired, satisfied_facts(desired))
    assert remaining(planned, now).changes == []


def test_a_bundle_without_the_package_is_named() -> None:
    inventory = parse(INVENTORY)
    profile = Profile(name="p", node_exporter={"package": "other-exporter"})
    with pytest.raises(BadInput) as caught:
        desired_state(inventory, profile, inventory.hosts[0], SOURCES)
    assert "podsys bundle" in caught.value.do


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"users": [{"name": "root"}]}, "root's keys"),
        ({"users": [{"name": "a b"}]}, "pattern"),
        ({"users": [{"name": "a"}, {"name": "a"}]}, "given twice"),
        ({"os": {"sysctl": {"vm.swappiness": "1\nkernel.panic = 1"}}}, "pattern"),
        ({"os": {"sysctl": {"../../etc/passwd": "1"}}}, "pattern"),
        ({"python_services": [{"name": "../x", "wheel": "w", "python": "/p", "command": ["a"]}]}, "pattern"),
        ({"python_services": [{"name": "x", "wheel": "w", "python": "p", "command": ["a"]}]}, "pattern"),
        ({"time": {"timezone": "../../etc/shadow"}}, "pattern"),
    ],
)
def test_a_profile_cannot_smuggle(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Profile.model_validate({"name": "p"} | change)


def test_a_host_without_facts_has_no_roles() -> None:
    assert HostPlan(id="n", hostname="n", error="no route").roles() == []


@pytest.mark.parametrize("name", ["ssh", "sshd", "systemd-timesyncd", "dbus"])
def test_a_service_never_takes_the_place_of_the_systems(name: str) -> None:
    service = {"name": name, "wheel": "w.whl", "python": "/p", "command": ["x"]}
    with pytest.raises(ValueError, match="operating system"):
        Profile.model_validate({"name": "p", "python_services": [service]})
