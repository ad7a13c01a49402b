"""The machine: Python and what is installed, the clock, what the service manager gave us."""

import importlib.metadata
import importlib.util
import os
import re
import resource
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tenex.core.installation import DISTRIBUTION, pip_install

from .findings import Case, Finding, fault, ok, warning

OLDEST_PYTHON: Final = (3, 11)
RELEASED: Final = 1_735_689_600
"""2025-01-01: no clock that is right can be before this program."""
FEW_FILES: Final = 512
"""Open files: 200 journals, a socket for each relay, pipes of tools, the index, and room."""
COLLECTOR: Final = 2.0
"""Seconds a collector has to take a connection; it is on this machine or near it."""
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;(.*))?")
_BOUND: Final = re.compile(r"(==|>=|<=|<|>|!=)\s*([0-9][0-9.]*)")


def installed(_: Case) -> Iterator[Finding]:
    """Python, and every package this program needs, in a version it can use."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        yield fault(f"Python {version} is too old", sys.executable, "use Python 3.11 or newer")
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield warning(
            "tenex is not installed as a package, so what it needs is not known",
            sys.prefix,
            f"in the checkout: {shlex.quote(sys.executable)} -m pip install .",
        )
        return
    bad = list(unmet(needed))
    for requirement, why in bad:
        yield fault(why, sys.prefix, pip_install(requirement=requirement))
    if not bad:
        yield ok(f"Python {version}, and every package it takes in a version that fits", sys.executable)


def unmet(needed: list[str]) -> Iterator[tuple[str, str]]:
    """The requirements that are not met, each with a sentence on why; what only an extra needs may be missing."""
    for line in needed:
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        name, bounds, marker = found[1], found[2] or "", found[3] or ""
        if marker and "extra" not in marker:
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if not marker:
                yield f"{name}{bounds.strip()}", f"{name} is not installed"
            continue
        if not all(_holds(version, sign, bound) for sign, bound in _BOUND.findall(bounds)):
            yield f"{name}{bounds.strip()}", f"{name} is installed as {version}, and must be {bounds.strip()}"


def _holds(version: str, sign: str, bound: str) -> bool:
    have, want = _numbers(version), _numbers(bound)
    width = max(len(have), len(want))
    have, want = have + (0,) * (width - len(have)), want + (0,) * (width - len(want))
    match sign:
        case "==":
            return have == want
        case "!=":
            return have != want
        case ">=":
            return have >= want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case _:
            return have < want


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


def clock(_: Case) -> Iterator[Finding]:
    """Whether the clock has been set at all; relays say how far it is off."""
    now = time.time()
    if now < RELEASED:
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        yield fault(
            f"the clock says {day}, which is before this program was written",
            "the system's clock",
            "set it: without the right time relays refuse everything; `timedatectl set-ntp true`",
        )


def service(case: Case) -> Iterator[Finding]:
    """What a service manager gives, and what a process may use."""
    notify = case.env.get("NOTIFY_SOCKET", "")
    if notify and not notify.startswith("@") and not Path(notify).is_socket():
        yield warning(
            "this is no socket, so the service manager is never told that we are ready",
            "$NOTIFY_SOCKET",
            "start tenex by its unit, or take the variable away",
        )
    credentials = case.env.get("CREDENTIALS_DIRECTORY", "")
    if credentials and not Path(credentials).is_dir():
        yield warning(
            "this is no folder, so no credential is found there",
            "$CREDENTIALS_DIRECTORY",
            "start tenex by its unit, or take the variable away",
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FEW_FILES:
        yield warning(
            f"only {soft} files may be open at once (up to {hard} are permitted)",
            "the limit on open files",
            "raise it: `ulimit -n 4096`, or LimitNOFILE= in the unit",
        )
    chosen = case.settings
    if chosen is None or "metrics" in case.doubtful or "traces" in case.doubtful:
        return
    if chosen.metrics.port is not None and not case.daemon.running:
        yield from _port(chosen.metrics.host, chosen.metrics.port)
    if chosen.traces.endpoint:
        yield from _traces(chosen.traces.endpoint)


def _port(host: str, port: int) -> Iterator[Finding]:
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        yield fault(
            f"port {port} of {host} cannot be used ({_reason(error)})",
            "metrics.port",
            "choose another port, or end the program that uses it",
        )


def _traces(endpoint: str) -> Iterator[Finding]:
    if not _has("opentelemetry.sdk"):
        yield fault(
            "traces are asked for, and OpenTelemetry is not installed", "traces.endpoint", pip_install(extra="otel")
        )
        return
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=COLLECTOR).close()
    except OSError as error:
        yield warning(
            f"the collector at {parts.hostname}:{port} cannot be reached ({_reason(error)}), so spans are dropped",
            "traces.endpoint",
            "start it, or take the setting away; nothing else suffers",
        )


def _reason(error: OSError) -> str:
    """Why, in the system's own words: `socket` adds the address, which is told already."""
    if isinstance(error, socket.gaierror) or error.errno is None:  # names have numbers of their own
        return str(error.strerror or error)
    return os.strerror(error.errno)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
