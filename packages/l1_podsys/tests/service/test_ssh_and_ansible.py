"""What is written for ssh and ansible, and how ansible's events become states of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from l1_podsys.api import BadInput, Inventory
from l1_podsys.backends.ansible.executor import Progress, _literal_yaml
from l1_podsys.backends.ansible.worker import event_line
from l1_podsys.backends.ssh import write_config
from l1_podsys.ports import Work


def inventory(**fields: Any) -> Inventory:
    host = {"id": "n1", "hostname": "node1", "address": "192.0.2.1"}
    return Inventory.model_validate({"cluster": "c", "hosts": [host | fields]})


def test_host_keys_are_always_checked_and_kept_per_cluster(tmp_path: Path) -> None:
    files = write_config(inventory(), tmp_path, connect_timeout_s=8, persist_s=20)
    text = files.config.read_text()
    assert "StrictHostKeyChecking accept-new" in text
    assert f"UserKnownHostsFile {tmp_path / 'known_hosts'}" in text
    assert "PasswordAuthentication no" in text
    assert "Host n1\n  HostName 192.0.2.1\n  User root\n" in text
    assert files.config.stat().st_mode & 0o777 == 0o600
    assert files.sockets.stat().st_mode & 0o777 == 0o700
    assert len(str(files.sockets)) + 42 < 107, "a socket's path is bounded"


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        write_config(inventory(ssh={"key": "/no/key"}), tmp_path, connect_timeout_s=8, persist_s=20)
    assert caught.value.field == "ssh.key"


def test_no_value_is_a_template_for_ansible() -> None:
    text = _literal_yaml(
        {"all": {"hosts": {"n1": {"podsys": {"a": "{{ lookup('pipe', 'id') }}", "mode": "0644"}}}}}
    )
    assert '"a": !unsafe' in text.replace("a: !unsafe", '"a": !unsafe')
    values = yaml.load(text, Loader=Loader)["all"]["hosts"]["n1"]["podsys"]
    assert values == {"a": ("literal", "{{ lookup('pipe', 'id') }}"), "mode": "0644"}


class Loader(yaml.SafeLoader):
    """Reads ansible's tag as (literal, text)."""


Loader.add_constructor("!unsafe", lambda _, node: ("literal", node.value))


def follow(*events: dict[str, Any], code: int = 0) -> list[tuple[str, str, str]]:
    said: list[tuple[str, str, str]] = []
    work = [Work("n1", {"users": {}, "time": {}}), Work("n2", {"users": {}})]
    progress = Progress(work, lambda host, role, event, detail: said.append((host, role, event)))
    for event in events:
        progress.take(event)
    progress.finish(code, "")
    return said


def test_a_good_play_is_start_and_done_for_each_pair() -> None:
    said = follow(
        {"event": "play", "play": "users"},
        {"event": "start", "host": "n1", "play": "users"},
        {"event": "start", "host": "n2", "play": "users"},
        {"event": "ok", "host": "n1", "play": "users"},
        {"event": "play", "play": "time"},
        {"event": "start", "host": "n1", "play": "time"},
    )
    assert said == [
        ("n1", "users", "start"), ("n2", "users", "start"), ("n1", "users", "done"), ("n2", "users", "done"),
        ("n1", "time", "start"), ("n1", "time", "done"),
    ]  # fmt: skip


def test_after_a_failure_the_host_is_left_alone_and_the_others_go_on() -> None:
    said = follow(
        {"event": "play", "play": "users"},
        {"event": "start", "host": "n1", "play": "users"},
        {"event": "start", "host": "n2", "play": "users"},
        {"event": "fail", "host": "n1", "play": "users", "detail": "no space"},
        code=2,
    )
    assert ("n1", "users", "fail") in said
    assert ("n1", "time", "fail") in said
    assert ("n2", "users", "done") in said


def test_when_ansible_dies_every_open_pair_has_failed() -> None:
    said = follow(
        {"event": "play", "play": "users"}, {"event": "start", "host": "n1", "play": "users"}, code=-9
    )
    assert ("n2", "users", "fail") in said
    assert ("n1", "time", "fail") in said


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ({"msg": "no\n  space"}, "t: no space"),
        ({"results": [{"failed": False}, {"failed": True, "stderr": "why"}]}, "t: why"),
        ({"censored": "x", "msg": "secret"}, "t: the result is private"),
    ],
)
def test_a_failed_task_is_told_in_one_line(result: dict[str, Any], says: str) -> None:
    event = {
        "event": "runner_on_failed",
        "event_data": {"host": "n1", "play": "p", "task": "t", "res": result},
    }
    line = event_line(event)
    assert line is not None
    assert line["detail"] == says
