"""A package registry on loopback, with one package for pip, npm and Cargo: static files, as their protocols say."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

NAME = "tiny-thing"
VERSION = "1.0.0"


class PackageRegistry:
    """Its address, what it serves, and what it was asked for."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.files = {**_python(), **_npm(self.url), **_cargo(self.url)}
        self.asked: list[str] = []
        """The paths, in order."""

    @property
    def environment(self) -> dict[str, str]:
        """By which programs with the network ask nothing else."""
        return {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_update_notifier": "false"}

    @property
    def install(self) -> str:
        """The command by which pip installs the package."""
        return f"python3 -m pip install -q -i {self.url}/simple/ --target lib {NAME}"

    def npm_project(self, folder: Path) -> None:
        """Write a project that needs the package, with its lock file."""
        facts = json.loads(self.files[f"/npm/{NAME}"])["versions"][VERSION]["dist"]
        wanted = {"name": "app", "version": "1.0.0", "dependencies": {NAME: VERSION}}
        locked = {"version": VERSION, "resolved": facts["tarball"], "integrity": facts["integrity"]}
        lock = {**wanted, "lockfileVersion": 3, "packages": {"": wanted, f"node_modules/{NAME}": locked}}
        (folder / ".npmrc").write_text(f"registry={self.url}/npm/\n")
        (folder / "package.json").write_text(json.dumps(wanted))
        (folder / "package-lock.json").write_text(json.dumps(lock))

    def cargo_project(self, folder: Path) -> None:
        """Write a program that needs the package."""
        (folder / "src").mkdir()
        (folder / "src/main.rs").write_text('fn main() { println!("{}", tiny_thing::tiny()); }\n')
        package = '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n'
        (folder / "Cargo.toml").write_text(f'{package}\n[dependencies]\n{NAME} = "1"\n')
        (folder / ".cargo").mkdir()
        (folder / ".cargo/config.toml").write_text(
            f'[source.crates-io]\nreplace-with = "here"\n\n[source.here]\nregistry = "sparse+{self.url}/cargo/"\n'
        )


def _tar(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def _python() -> dict[str, bytes]:
    """The simple repository API (PEP 503), and a wheel."""
    module = NAME.replace("-", "_")
    folder = f"{module}-{VERSION}.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr(f"{module}.py", "tiny = True\n")
        wheel.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n")
        wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{folder}/RECORD", f"{module}.py,,\n{folder}/METADATA,,\n{folder}/WHEEL,,\n")
    file = f"{module}-{VERSION}-py3-none-any.whl"
    return {
        f"/simple/{NAME}/": f'<a href="/files/{file}">{file}</a>'.encode(),
        f"/files/{file}": packed.getvalue(),
    }


def _npm(url: str) -> dict[str, bytes]:
    """A package as npm's registry describes it, and its tarball."""
    manifest = {"name": NAME, "version": VERSION, "main": "index.js"}
    packed = _tar({"package/package.json": json.dumps(manifest), "package/index.js": "module.exports = true\n"})
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(packed).digest()).decode()}"
    tarball = f"{url}/npm/{NAME}/-/{NAME}-{VERSION}.tgz"
    described = {**manifest, "dist": {"tarball": tarball, "integrity": integrity}}
    document = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: described}}
    return {f"/npm/{NAME}": json.dumps(document).encode(), tarball.removeprefix(url): packed}


def _cargo(url: str) -> dict[str, bytes]:
    """A sparse index of Cargo with one package, and its `.crate`."""
    top = f"{NAME}-{VERSION}"
    manifest = f'[package]\nname = "{NAME}"\nversion = "{VERSION}"\nedition = "2021"\n'
    packed = _tar({f"{top}/Cargo.toml": manifest, f"{top}/src/lib.rs": "pub fn tiny() -> bool { true }\n"})
    checksum = hashlib.sha256(packed).hexdigest()
    entry = {"name": NAME, "vers": VERSION, "deps": [], "features": {}, "cksum": checksum, "yanked": False}
    place = f"/crates/{NAME}/{VERSION}.crate"
    return {
        "/cargo/config.json": json.dumps({"dl": f"{url}/crates/{{crate}}/{{version}}.crate"}).encode(),
        f"/cargo/ti/ny/{NAME}": json.dumps(entry).encode(),
        place: packed,
    }


@contextmanager
def package_registry() -> Iterator[PackageRegistry]:
    """A registry that serves from threads of its own until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            content = registry.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/html" if self.path.startswith("/simple/") else "application/json")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = PackageRegistry(server.server_port)
    thread = Thread(target=server.serve_forever, name="package registry")
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
