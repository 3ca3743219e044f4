"""The kit: envelope and digest, problems, settings, tokens, files, logs and the web shell."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest
import rfc8785
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st
from l0_infra_os._kit import config, database, documents, files, logs, problems, tokens, web
from pydantic_settings import SettingsConfigDict
from starlette.testclient import TestClient


class Note(documents.Document):
    SCHEMA: ClassVar[str] = "ogai.note/v1"

    text: str
    size: float = 0


class Settings(config.LayerSettings):
    TABLE: ClassVar[str] = "l9"
    model_config = SettingsConfigDict(env_prefix="OGAI_L9_", extra="forbid")

    port: int = 1
    broker_url: str = "redis://:s3cret@127.0.0.1/0"
    api_key: str = "abc"


PRODUCER = documents.Producer(name="test", version="1")


def test_the_digest_is_that_of_rfc_8785() -> None:
    # the example of RFC 8785, section 3.2.2: sorted keys, shortest numbers, plain unicode
    value = {"numbers": [333333333.33333329, 1e30, 4.50, 2e-3], "literals": [None, True, False]}
    canonical = '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002]}'
    assert documents.digest_of(value) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


@given(st.text(), st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_written_document_reads_back_with_the_same_digest(text: str, number: int) -> None:
    note = Note(producer=PRODUCER, text=text, size=number)
    again = Note.parse(json.loads(json.dumps(note.as_json())))
    assert again.digest() == note.digest()


NUMBERS = st.one_of(st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


@given(VALUES)
@example([0.0001, 0.00001, 1e-7, 1e16, 1e21, 2.0**53, -0.0, 4.5, 123456789.125, 5e-324])
@example(
    {
        "b": '\x7f\x1f\u2028/\\"',
        "a": "\n",
        "\u00e9": 1,
        "\U0001f600": 2,
    }
)
def test_the_canonical_form_is_the_reference_implementations(value: object) -> None:
    assert documents.canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ({"schema": "ogai.note/v2"}, "schema", "not 'ogai.note/v1'"),
        ({"texx": 1}, "texx", "Extra inputs"),
        ({"text": None}, "text", "string"),
    ],
)
def test_a_wrong_document_names_the_field(value: dict[str, object], field: str, words: str) -> None:
    whole = {"schema": "ogai.note/v1", "producer": PRODUCER.model_dump(), "text": "x", **value}
    with pytest.raises(problems.BadInput) as caught:
        Note.parse(whole)
    assert caught.value.field == field
    assert words in str(caught.value)
    assert str(caught.value).count(f"{field}:") == 1


def test_broken_json_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"schema": ')
    with pytest.raises(problems.BadInput, match=r"note\.json"):
        Note.read(path)


def test_a_kill_during_writing_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    files.atomic_write(target, "0" * 1000)
    program = (
        "import sys, pathlib\n"
        "from l0_infra_os._kit.files import atomic_write\n"
        "for i in range(10**6): atomic_write(pathlib.Path(sys.argv[1]), str(i % 10) * 1000)\n"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", program, str(target)])
        time.sleep(0.4)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        text = target.read_text()
        assert len(text) == 1000
        assert len(set(text)) == 1


def test_private_files_are_private(tmp_path: Path) -> None:
    store = tokens.TokenStore(tmp_path / "tokens.json")
    store.admin_token()
    with database.connect(database.sqlite_url(tmp_path / "state.db")).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE secrets (word TEXT)")
        written = sorted(path.name for path in tmp_path.glob("state.db*"))
    assert "state.db-wal" in written
    for name in ("tokens.json", "admin.token", *written):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_database_that_is_opened_twice_keeps_its_locks(tmp_path: Path) -> None:
    # POSIX: a process that closes a file loses all its locks on it, also SQLite's; the next process
    # that looks in and leaves then takes itself for the last one, and removes the log that we write to.
    url = database.sqlite_url(tmp_path / "state.db")
    look = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1])\n"
        "print(c.execute('SELECT count(*) FROM words').fetchone()[0]); c.close()"
    )

    def rows_seen_elsewhere() -> str:
        command = [sys.executable, "-c", look, str(tmp_path / "state.db")]
        return subprocess.check_output(command, text=True).strip()

    first = database.connect(url)
    with first.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE words (word TEXT)")
    with first.connect() as connection:
        connection.exec_driver_sql("SELECT 1 FROM words").all()
        second = database.connect(url)
        assert rows_seen_elsewhere() == "0"
    with first.begin() as connection:
        connection.exec_driver_sql("INSERT INTO words VALUES ('kept')")
    assert rows_seen_elsewhere() == "1"
    first.dispose()
    second.dispose()


def test_tokens_are_kept_as_hashes_expire_and_can_be_revoked(tmp_path: Path) -> None:
    now = 1000.0
    store = tokens.TokenStore(tmp_path / "tokens.json", clock=lambda: now)
    token = store.create("ann", "blue", lifetime_s=60)
    assert token not in (tmp_path / "tokens.json").read_text()
    assert store.authenticate(token) == tokens.Principal("blue", "user", "ann")
    now = 1061.0
    with pytest.raises(problems.Unauthorized, match="expired"):
        store.authenticate(token)
    store.revoke("ann")
    with pytest.raises(problems.Unauthorized, match="unknown"):
        store.authenticate(token)


@pytest.mark.parametrize(("role", "lifetime_s"), [("boss", None), ("user", 0.0), ("user", float("nan"))])
def test_a_token_that_makes_no_sense_is_not_made(tmp_path: Path, role: str, lifetime_s: float | None) -> None:
    store = tokens.TokenStore(tmp_path / "tokens.json")
    with pytest.raises(problems.BadInput):
        store.create("ann", "blue", role, lifetime_s=lifetime_s)
    assert store.rows() == []


def test_settings_come_from_flag_environment_file_default_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OGAI_HOME", str(tmp_path))

    def seen(**flags: object) -> tuple[int, str]:
        settings = Settings.load(**flags)
        return settings.port, next(row.source for row in settings.explain(**flags) if row.name == "port")

    assert seen() == (1, "default")
    (tmp_path / "ogai.toml").write_text("[l9]\nport = 2\n")
    assert seen() == (2, "ogai.toml [l9]")
    monkeypatch.setenv("OGAI_L9_PORT", "3")
    assert seen() == (3, "environment OGAI_L9_PORT")
    assert seen(port=4) == (4, "flag")


def test_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    shown = {row.name: row.value for row in Settings.load(home=tmp_path).explain()}
    assert shown["broker_url"] == "redis://***@127.0.0.1/0"
    assert shown["api_key"] == "***"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[l9]\nprot = 2\n", "prot"),
        ("[l9]\nport = 'x'\n", "port"),
        ("[l9\n", "TOML"),
        ("l9 = 3\n", "not a table"),
    ],
)
def test_a_wrong_configuration_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ogai.toml").write_text(text)
    with pytest.raises(problems.BadInput, match=words):
        Settings.load()


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("token ogai-AbCdEfGhIjKlMnOpQrStUv used", "AbCdEf"),
        ("redis://:s3cret-pass@10.0.0.1:6379/0", "s3cret"),
        ("key sk-0123456789abcdefghij", "0123456789"),
    ],
)
def test_secrets_do_not_reach_the_log(capsys: pytest.CaptureFixture[str], text: str, hidden: str) -> None:
    handlers = logging.getLogger().handlers[:]
    try:
        logs.set_up()
        logging.getLogger("x").warning(text)
    finally:
        logging.getLogger().handlers = handlers
    err = capsys.readouterr().err
    assert hidden not in err
    assert logs.HIDDEN in err


def app_in(folder: Path) -> FastAPI:
    return web.new_web_app(
        package="l0_infra_os",
        layer="l9",
        title="Test",
        version="1",
        settings=Settings.load(home=folder),
        navigation=[("/", "Home")],
        messages={},
    )


def test_login_sets_a_cookie_that_other_sites_cannot_use(tmp_path: Path) -> None:
    app = app_in(tmp_path)

    @app.post("/api/v1/do")
    def do(who: web.Caller) -> str:
        return who.name

    client = TestClient(app)
    assert client.post("/api/v1/do").status_code == 401
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    token = tokens.TokenStore(tmp_path / "tokens.json").admin_token()
    answer = client.post("/login", data={"token": token}, follow_redirects=False)
    assert answer.status_code == 303
    assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
    assert client.post("/api/v1/do").json() == "admin"
    stranger = client.post("/api/v1/do", headers={"origin": "https://elsewhere.example"})
    assert (stranger.status_code, stranger.headers["content-type"]) == (403, "application/problem+json")


def test_login_redirects_only_within_the_site(tmp_path: Path) -> None:
    client = TestClient(app_in(tmp_path))
    token = tokens.TokenStore(tmp_path / "tokens.json").admin_token()
    for target in ("https://evil.example", "//evil.example", "/\\evil.example"):
        answer = client.post("/login", data={"token": token, "next": target}, follow_redirects=False)
        assert answer.headers["location"] == "/"


def test_pages_speak_chinese_and_keep_the_choice(tmp_path: Path) -> None:
    client = TestClient(app_in(tmp_path))
    assert "Sign in" in client.get("/login").text
    assert "登录" in client.get("/login?lang=zh").text
    assert "登录" in client.get("/login").text  # the cookie remembers
    assert 'lang="zh-CN"' in client.get("/login").text


def test_problems_are_rfc_9457_for_programs_and_pages_for_people(tmp_path: Path) -> None:
    client = TestClient(app_in(tmp_path))
    answer = client.get("/nothing")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 404
    page = client.get("/nothing", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_a_command_line_error_has_exit_code_2_and_no_traceback(tmp_path: Path) -> None:
    environment = {**os.environ, "OGAI_CONFIG": str(tmp_path / "ogai.toml"), "OGAI_HOME": str(tmp_path)}
    (tmp_path / "ogai.toml").write_text("[l0]\ncolour = 1\n")
    command = [sys.executable, "-m", "l0_infra_os", "config", "show"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "colour" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    script = (
        "from pathlib import Path; from l0_infra_os._kit import command_line, files\n"
        "app = command_line.new_app('x')\n"
        "app.command()(lambda: files.atomic_write(Path(OUT), 'x'))\n"
        "command_line.run(app)"
    )
    script = script.replace("OUT", repr(str(tmp_path / "file" / "out.json")))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "file" in done.stderr
    assert "Traceback" not in done.stderr
