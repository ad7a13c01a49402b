"""What the environment says about proxies and certificates, and what a failed connection says about them.

The clients of vendors read these variables themselves, and end with errors of Python where one is wrong.
"""

import importlib.util
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tenex.core.installation import pip_install

PROXIES: Final = ("https_proxy", "http_proxy", "all_proxy")
"""The variables that name a proxy, in lower or upper case."""
CERTIFICATES: Final = "SSL_CERT_FILE"
FOLDER: Final = "SSL_CERT_DIR"
PROXY_LOGIN: Final = "put user and password into the variable that names it, http://USER:PASSWORD@HOST:PORT"
"""What to do about a proxy that answers 407."""
_SCHEMES: Final = ("http", "https", "socks5", "socks5h")


def fault_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why a variable makes every request impossible, and what to do; None where none does."""
    return next(_faults(environment), None)


def _faults(environment: Mapping[str, str]) -> Iterator[str]:
    file = environment.get(CERTIFICATES)
    folder = environment.get(FOLDER)
    if file:
        yield from _faults_of_certificates(Path(file))
    elif folder and not Path(folder).is_dir():
        yield f"{FOLDER} names {folder}, which is no folder: unset it, or correct it"
    for name, value in environment.items():
        if name.lower() in PROXIES and value:
            yield from _faults_of_proxy(name, value)


def _faults_of_certificates(file: Path) -> Iterator[str]:
    remedy = "unset it, or name a file of certificates in PEM form"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except ssl.SSLError:
        yield f"{CERTIFICATES} names {file}, which holds no certificates: {remedy}"
    except OSError as error:
        yield f"{CERTIFICATES} names {file}, which cannot be read ({error.strerror}): {remedy}"


def _faults_of_proxy(name: str, value: str) -> Iterator[str]:
    parts = _parts_of(value)
    if parts is None:
        yield f"{name} holds no address of a proxy: write it as http://HOST:PORT"
        return
    if parts.scheme not in _SCHEMES:
        instead = "socks5" if parts.scheme == "socks" else "http"
        yield f"{name} begins with {parts.scheme}://, which is not known: write {instead}:// in its place"
    elif parts.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        command = pip_install(requirement="socksio")
        yield f"{name} names a SOCKS proxy, which needs the package socksio: install it by {command}"


def _parts_of(proxy: str) -> SplitResult | None:
    """The parts of the address of a proxy; None where it is none."""
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return None
    return parts if parts.hostname and has_port else None


def connection_fault(error: BaseException) -> str | None:
    """What certificates or a proxy have to do with a connection that failed, and what to do; None for nothing."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message or "not verified"
            return (
                f"has a certificate that is not trusted here ({why}): where a company's proxy or CA signs it, let "
                f"{CERTIFICATES} name a file that holds that CA"
            )
        if type(cause).__name__ == "ProxyError":  # of httpx, its successor and its transport, each its own class
            said = str(cause).strip().rstrip(".") or "without a reason"
            remedy = PROXY_LOGIN if "407" in said else "look at the proxy that HTTPS_PROXY names"
            return f"is behind a proxy that refuses the connection ({said}): {remedy}"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what caused it, from the outermost to the first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
