"""Texts of systemd units and environment files, quoted as systemd.service(5) and systemd.exec(5) say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def quote_word(word: str) -> str:
    """One word of ExecStart: `%` and `$` mean nothing, blanks and quotes stay in the word."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if plain == "" or any(sign in plain for sign in " \t'\"\\;#") else plain


def quote_value(value: str) -> str:
    """One value of an EnvironmentFile: everything in it is literal."""
    for sign in '\\"`$':
        value = value.replace(sign, "\\" + sign)
    return f'"{value}"'


def environment_file(values: Mapping[str, str]) -> str:
    """The text of an EnvironmentFile, sorted."""
    return "".join(f"{name}={quote_value(values[name])}\n" for name in sorted(values))


def service_unit(
    *, description: str, command: Iterable[str], environment: str, user: str, restart_s: float, kill_mode: str
) -> str:
    """The text of a service that systemd keeps running; `kill_mode` is systemd.kill(5)'s."""
    return f"""# Written by podsys; changes here are undone by the next apply.
[Unit]
Description={description}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={" ".join(map(quote_word, command))}
EnvironmentFile={environment}
User={user}
Restart=always
RestartSec={restart_s:g}
KillMode={kill_mode}
TimeoutStopSec=15

[Install]
WantedBy=multi-user.target
"""


def drop_in(command: Iterable[str]) -> str:
    """A drop-in that gives a packaged unit another command line."""
    return f"[Service]\nExecStart=\nExecStart={' '.join(map(quote_word, command))}\n"
