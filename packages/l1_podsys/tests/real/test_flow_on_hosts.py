"""Plan, apply, apply again, verify on real systemd hosts over real SSH, and what goes wrong in between."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from l1_podsys.api import BadInput, Conflict, Failed, PairState, Plan, Podsys, Run, Settings, Unavailable
from l1_podsys.backends.ansible.worker import children_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
pytest.importorskip("ansible_runner", reason="needs ansible-runner (extra: ansible)")

HELLO = """
import os, sys, time
keys = ("PLACE", "TOKEN", "PYTHONPATH")
print(sys.argv[1:], {key: os.environ[key] for key in keys}, flush=True)
time.sleep(1e6)
"""
SECRET = 's3cret $x "y" \\ `z`'


def make_wheel(folder: Path, text: str = HELLO) -> Path:
    """A wheel with one package, its RECORD as the wheel specification says."""
    files = {
        "hello_service/__init__.py": "",
        "hello_service/__main__.py": text,
        "hello_service-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello-service\nVersion: 1.0\n",
        "hello_service-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    path = folder / "hello_service-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(content)}\n")
            archive.writestr(zipfile.ZipInfo(name), content)  # a fixed date: equal content, equal digest
        record = "hello_service-1.0.dist-info/RECORD"
        archive.writestr(zipfile.ZipInfo(record), "".join([*rows, f"{record},,\n"]))
    return path


def make_profile(folder: Path, **changes: Any) -> Path:
    make_wheel(folder)
    (folder / "token").write_text(SECRET + "\n")
    profile = {
        "name": "real",
        "os": {
            "tuning": ["many-files"],
            "sysctl": {"kernel.numa_balancing": 0},
            "limits": [{"item": "memlock", "value": "unlimited"}],
        },
        "hosts_file": {"domain": "lab.test"},
        "users": [
            {
                "name": "alice",
                "uid": 2001,
                "groups": ["video"],
                "sudo": True,
                "keys": ["ssh-ed25519 AAAA {{ 7*7 }}"],
            },
            {"name": "operator", "keys": ["ssh-ed25519 AAAA op"]},
        ],
        "time": {"timezone": "Asia/Shanghai", "servers": ["192.0.2.1"]},
        "python_services": [
            {
                "name": "hello",
                "wheel": "hello_service-1.0-py3-none-any.whl",
                "python": "/usr/bin/python3",
                "command": ["-m", "hello_service", "--node", "{id}", "50% $HOME; a b"],
                "environment": {"PLACE": "{hostname}@{address}"},
                "secrets": {"TOKEN": "token"},
            }
        ],
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile | changes))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def podsys(folder: Path) -> Podsys:
    return Podsys(Settings(home=folder / "home"))


@pytest.fixture(scope="module")
def inventory(hosts: Any, folder: Path) -> Path:
    path = folder / "inventory.yaml"
    path.write_text(hosts.inventory(profile="profile.yaml", shared_path="/var/tmp"))
    make_profile(folder)
    return path


@pytest.fixture(scope="module")
def applied(podsys: Podsys, inventory: Path) -> tuple[Plan, Run]:
    """The hosts as the profile wants them; each test leaves them so."""
    plan = podsys.plan(inventory)
    return plan, podsys.apply(plan)


def no_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("ansible was started although nothing differs")

    monkeypatch.setattr("l1_podsys.service.applying.AnsibleExecutor", refuse)


def test_the_first_apply_changes_and_proves_every_pair(applied: tuple[Plan, Run]) -> None:
    plan, run = applied
    assert plan.unreachable == []
    assert {host.id for host in plan.hosts} == {"n1", "n2", "n3"}
    assert run.failures() == []
    assert set(run.states().states.values()) == {PairState.PROVED}
    assert run.summary()["changed"] == len(plan.pairs()) == 3 * 5


def test_a_second_apply_changes_nothing_and_starts_no_ansible(
    podsys: Podsys, inventory: Path, applied: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_ansible(monkeypatch)
    plan = podsys.plan(inventory)
    assert plan.changes == 0
    start = time.monotonic()
    run = podsys.apply(plan)
    assert run.summary()["changed"] == 0
    assert run.states().ended == "done"
    assert time.monotonic() - start < 10


def test_the_old_plan_applied_again_changes_nothing(
    podsys: Podsys, applied: tuple[Plan, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_ansible(monkeypatch)
    again = podsys.apply(applied[0])
    assert again.id != applied[1].id
    assert (again.summary()["changed"], again.summary()["unchanged"]) == (0, 15)


def test_the_service_runs_with_its_words_its_environment_and_its_secret(hosts: Any, applied: object) -> None:
    lines = hosts.ssh(1, "journalctl -u hello -o cat").splitlines()
    said = next(line for line in lines if line.startswith("['--node'"))
    assert "['--node', 'n2', '50% $HOME; a b']" in said
    assert repr(SECRET) in said
    assert f"n2@{hosts.addresses[1]}" in said
    assert "'PYTHONPATH': '/opt/podsys/hello/" in said
    assert hosts.ssh(1, "stat -c '%a %U' /etc/podsys/hello.env").split() == ["600", "root"]
    assert hosts.ssh(1, "ls -A /var/lib/podsys/uploads").strip() == ""


def test_no_secret_is_left_on_the_controller_or_in_a_process_list(folder: Path, applied: object) -> None:
    for path in (folder / "home").rglob("*"):
        if path.is_file():
            assert b"s3cret" not in path.read_bytes(), path
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"s3cret" not in path.read_bytes()
        except OSError:
            continue


def test_users_names_and_time_are_there(hosts: Any, applied: object) -> None:
    assert hosts.ssh(0, "getent hosts n3.lab.test").split()[0] == hosts.addresses[2]
    assert hosts.ssh(0, "getent hosts localhost").split()[0] in ("127.0.0.1", "::1")
    assert hosts.ssh(0, "date +%Z").strip() == "CST"
    assert "video" in hosts.ssh(0, "id -nG alice")
    assert hosts.ssh(0, "cat /home/alice/.ssh/authorized_keys") == "ssh-ed25519 AAAA {{ 7*7 }}\n"
    assert hosts.ssh(0, "stat -c '%a %U:%G' /home/operator/.ssh").strip() == "700 operator:operator"
    assert hosts.ssh(0, "su alice -c 'sudo -n id -u'").strip() == "0"


DRIFTS = [
    ("a file was edited", "echo '# by hand' >> /etc/security/limits.d/90-podsys.conf", ("n1", "os_settings")),
    ("a file was opened to all", "chmod 644 /etc/podsys/hello.env", ("n1", "python_services")),
    ("a service was stopped", "systemctl stop hello", ("n1", "python_services")),
    ("a service was disabled", "systemctl disable -q hello", ("n1", "python_services")),
    ("the code was removed", "rm -r /opt/podsys/hello", ("n1", "python_services")),
    ("a user lost a group", "gpasswd -d alice video >/dev/null", ("n1", "users")),
    ("names were removed", "echo 127.0.0.1 localhost > /etc/hosts", ("n1", "hosts_file")),
    ("the time zone was changed", "ln -sf /usr/share/zoneinfo/UTC /etc/localtime", ("n1", "time")),
]  # fmt: skip


def test_drift_is_found_where_it_is_and_only_that_is_repaired(
    podsys: Podsys, hosts: Any, inventory: Path, applied: object
) -> None:
    expected = set()
    for _, command, pair in DRIFTS:
        hosts.ssh(0, command)
        expected.add(pair)
    plan = podsys.plan(inventory)
    assert set(plan.pairs()) == expected
    assert len(plan.hosts[0].changes) >= len(DRIFTS) - 1
    run = podsys.apply(plan)
    assert run.failures() == []
    assert podsys.plan(inventory).changes == 0
    assert hosts.ssh(0, "head -1 /etc/hosts").strip() == "# BEGIN podsys"
    assert "127.0.0.1 localhost" in hosts.ssh(0, "cat /etc/hosts")


def test_a_plan_overtaken_by_a_change_is_refused_and_nothing_is_done(
    podsys: Podsys, hosts: Any, inventory: Path, applied: object
) -> None:
    hosts.ssh(1, "systemctl stop hello")
    plan = podsys.plan(inventory)
    hosts.ssh(1, "rm /etc/sysctl.d/90-podsys.conf")
    before = len(podsys.runs())
    with pytest.raises(Conflict, match="stale"):
        podsys.apply(plan)
    assert len(podsys.runs()) == before
    assert hosts.ssh(1, "systemctl is-active hello", check=False).strip() == "inactive"
    podsys.apply(podsys.plan(inventory))


def test_a_plan_whose_profile_or_secret_changed_is_refused(
    podsys: Podsys, hosts: Any, inventory: Path, folder: Path, applied: object
) -> None:
    hosts.ssh(1, "rm /etc/podsys/hello.env")
    plan = podsys.plan(inventory)
    (folder / "token").write_text("another\n")
    with pytest.raises(Conflict, match="made from was changed"):
        podsys.apply(plan)
    make_profile(folder, time={"timezone": "UTC"})
    with pytest.raises(Conflict, match=r"profile\.yaml was changed"):
        podsys.apply(plan)
    make_profile(folder)
    assert podsys.apply(podsys.plan(inventory)).failures() == []


APPLY = """
import sys
import threading
from pathlib import Path
from l1_podsys.api import Plan, Podsys, Settings
podsys = Podsys(Settings(home=Path(sys.argv[1])))
plan = podsys.state.cluster("tests").plan()
podsys.apply(plan, watch=lambda *step: print(*step, flush=True))
"""


def test_a_killed_apply_leaves_no_process_and_goes_on(
    podsys: Podsys, hosts: Any, inventory: Path, folder: Path, applied: object
) -> None:
    for index in range(3):
        hosts.ssh(index, "rm -r /opt/podsys/hello /etc/security/limits.d/90-podsys.conf")
    plan = podsys.plan(inventory)
    child = subprocess.Popen(
        [sys.executable, "-c", APPLY, str(folder / "home")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert "start" in child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 5
    while of_run(folder) and time.monotonic() < end:
        time.sleep(0.1)
    assert of_run(folder) == []
    killed = podsys.runs()[0]
    assert killed.states().ended is None
    again = podsys.apply(plan)
    assert again.id == killed.id
    assert again.states().ended == "done"
    assert set(again.states().states.values()) == {PairState.PROVED}
    assert podsys.plan(inventory).changes == 0


@pytest.mark.parametrize("which", ["playbook", "a process that it forked"])
def test_an_ansible_that_is_killed_is_a_failure_and_the_next_apply_goes_on(
    which: str, podsys: Podsys, hosts: Any, inventory: Path, folder: Path, applied: object
) -> None:
    for index in range(3):
        hosts.ssh(index, "rm -rf /opt/podsys/hello /etc/security/limits.d/90-podsys.conf")
    plan = podsys.plan(inventory)
    killed: list[int] = []

    def kill_one() -> None:
        end = time.monotonic() + 60
        while not killed and time.monotonic() < end:
            playbook = [pid for pid in children_of(os.getpid()) if "ansible-playbook" in command_line(pid)]
            chosen = playbook[:1] if which == "playbook" else playbook[1:][-1:]
            for pid in chosen if len(playbook) > 1 else ():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.05)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        why = podsys.apply(plan).failures()[0]["why"]
    except Failed as problem:  # killed before its first task
        why = str(problem)
    killer.join()
    assert killed
    assert why
    assert podsys.runs()[0].states().ended != "done"
    assert of_run(folder) == []
    again = podsys.apply(podsys.plan(inventory))
    assert again.states().ended == "done"
    assert podsys.plan(inventory).changes == 0


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    return ""


def of_run(folder: Path) -> list[str]:
    """Processes of ansible that work on our state folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder / "home") in words and "ansible" in words and str(os.getpid()) != path.parent.name:
            found.append(words)
    return found


def test_a_service_that_dies_is_a_failure_with_its_last_words(
    podsys: Podsys, hosts: Any, inventory: Path, folder: Path, applied: object
) -> None:
    make_profile(folder)
    make_wheel(folder, "raise SystemExit('no broker at all')\n")
    run = podsys.apply(podsys.plan(inventory))
    assert run.states().ended == "failed"
    assert {row["role"] for row in run.failures()} == {"python_services"}
    assert "no broker at all" in run.failures()[0]["why"]
    make_profile(folder)
    assert podsys.apply(podsys.plan(inventory)).failures() == []


def test_verify_measures_every_host_and_pair_in_bounded_time(
    podsys: Podsys, inventory: Path, applied: object
) -> None:
    start = time.monotonic()
    report = podsys.verify(inventory)
    assert time.monotonic() - start < 30
    assert [node.id for node in report.nodes] == ["n1", "n2", "n3"]
    rows = {(check.name, check.node, check.peer): check for check in report.checks}
    for name in ("cpu", "memory", "disk-write", "disk-fsync"):
        for node in ("n1", "n2", "n3"):
            assert float(str(rows[name, node, None].value)) != 0
    for node in ("n1", "n2", "n3"):  # they share this machine's clock
        assert abs(float(str(rows["clock-offset", node, None].value))) < 50
    measured = {frozenset((c.node, c.peer)) for c in report.checks if c.name == "network-bandwidth"}
    assert measured == {frozenset(pair) for pair in (("n1", "n2"), ("n1", "n3"), ("n2", "n3"))}
    assert all(check.verdict == "pass" for check in report.checks if check.name in ("drift", "clock-offset"))
    leaves = report.topology.children[0].children
    assert {leaf.name: len(leaf.children[0].children) for leaf in leaves} == {"leaf1": 2, "leaf2": 1}
    assert json.loads(json.dumps(report.as_json()))["schema"] == "ogai.cluster-report/v1"


def test_a_link_that_is_down_is_a_failed_pair_and_the_rest_is_measured(
    podsys: Podsys, hosts: Any, inventory: Path, applied: object
) -> None:
    hosts.route(2, "add", "blackhole", f"{hosts.addresses[0]}/32")
    try:
        report = podsys.verify(inventory)
    finally:
        hosts.route(2, "del", "blackhole", f"{hosts.addresses[0]}/32")
    verdicts = {
        frozenset((c.node, c.peer)): c.verdict for c in report.checks if c.name == "network-bandwidth"
    }
    assert verdicts[frozenset(("n1", "n3"))] == "fail"
    assert verdicts[frozenset(("n1", "n2"))] == "pass"


def test_an_unreachable_host_does_not_stop_the_others(
    podsys: Podsys, hosts: Any, folder: Path, applied: object
) -> None:
    value = yaml.safe_load(hosts.inventory(profile="profile.yaml"))
    value["hosts"][2] |= {
        "address": hosts.addresses[0].rsplit(".", 1)[0] + ".99",
        "id": "n9",
        "hostname": "n9",
    }
    value["cluster"] = "partly"
    path = folder / "partly.yaml"
    path.write_text(yaml.safe_dump(value))
    plan = podsys.plan(path)
    assert [host.id for host in plan.unreachable] == ["n9"]
    run = podsys.apply(plan)
    assert run.failures() == []
    assert run.states().ended == "failed", "a host was never asked: that is no success"
    report = podsys.verify(path)
    assert {c.node for c in report.checks if c.name == "reachable" and c.verdict == "fail"} == {"n9"}
    podsys.apply(podsys.plan(folder / "inventory.yaml"))


def test_a_changed_host_key_is_refused_until_it_is_forgotten(
    podsys: Podsys, hosts: Any, inventory: Path, applied: object
) -> None:
    hosts.ssh(
        2,
        "rm /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key; "
        "systemctl restart ssh",
    )
    (hosts.folder / "known").unlink()
    (refused,) = podsys.plan(inventory).unreachable
    assert refused.id == "n3"
    assert refused.error is not None
    assert "host key" in refused.error
    assert "podsys forget n3" in refused.error
    podsys.forget(podsys.inventory(inventory), "n3")
    assert podsys.plan(inventory).unreachable == []


def test_a_login_that_is_not_root_uses_sudo(
    podsys: Podsys, hosts: Any, folder: Path, applied: object
) -> None:
    public = hosts.key.with_suffix(".pub").read_text().strip()
    hosts.ssh(0, f"echo '{public}' >> /home/alice/.ssh/authorized_keys")
    limits = [{"item": "nofile", "value": "4242"}]
    (folder / "small.yaml").write_text(yaml.safe_dump({"name": "small", "os": {"limits": limits}}))
    value = yaml.safe_load(hosts.inventory(profile="small.yaml"))
    value |= {
        "cluster": "by-alice",
        "ssh": {"user": "alice", "key": str(hosts.key)},
        "hosts": value["hosts"][:1],
    }
    path = folder / "alice.yaml"
    path.write_text(yaml.safe_dump(value))
    run = podsys.apply(podsys.plan(path))
    assert run.failures() == []
    assert hosts.ssh(0, "cat /etc/security/limits.d/90-podsys.conf") == "* - nofile 4242\n"
    podsys.apply(podsys.plan(folder / "inventory.yaml"))


def test_wrong_keys_and_wrong_names_are_told(
    podsys: Podsys, hosts: Any, folder: Path, tmp_path: Path
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    value = yaml.safe_load(hosts.inventory(profile="profile.yaml"))
    value |= {"cluster": "wrong-key", "ssh": {"user": "root", "key": str(tmp_path / "other")}}
    path = folder / "wrong.yaml"
    path.write_text(yaml.safe_dump(value))
    plan = podsys.plan(path)
    assert len(plan.unreachable) == 3
    assert "authorized_keys" in str(plan.unreachable[0].error)
    with pytest.raises((BadInput, Unavailable)):
        podsys.inventory(folder / "no-such.yaml")
