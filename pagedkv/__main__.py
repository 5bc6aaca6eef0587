"""The `pagedkv` command: open the lab, bring back a fresh notebook, build the Java part."""

import argparse
import os
import secrets
import socket
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from pagedkv.java.build import JavaBuildFailed, checkout, ensure_built, utf8_locale
from pagedkv.java.jdk import ToolNotFound
from pagedkv.lab.copies import first_notebook, notebook_name, refresh_copies, reset

LOOPBACK = "127.0.0.1"
FIRST_PORT = 8888
PORTS_TO_TRY = 100


class CommandError(Exception):
    """The command cannot do what was asked; the message says why, for the person at the terminal."""


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        return args.run(args) or 0
    except (CommandError, JavaBuildFailed, ToolNotFound) as error:
        print(f"pagedkv: {error}", file=sys.stderr)
    except OSError as error:
        print(f"pagedkv: {error.strerror}: {error.filename}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pagedkv", description="A lab for the memory side of LLM serving.")
    commands = parser.add_subparsers(required=True, metavar="command")

    lab = commands.add_parser("lab", help="open JupyterLab on your copies of the notebooks",
                              description="Open JupyterLab, reachable from this machine only and with a new token.")
    lab.add_argument("--port", type=_port, help=f"this port and no other (else the first free one from {FIRST_PORT})")
    lab.add_argument("--no-browser", action="store_true", help="print the address only")
    lab.add_argument("notebook", nargs="?", help="the notebook to open, by number or by name (else the first)")
    lab.set_defaults(run=_lab)

    fresh = commands.add_parser("reset", help="a fresh copy of a notebook; yours is kept aside",
                                description="Bring back a notebook as the repository has it; yours is kept aside.")
    fresh.add_argument("number", metavar="NN", help="the notebook's number, such as 03")
    fresh.set_defaults(run=_reset)

    java = commands.add_parser("java", help="build the Java part, if it is missing or stale",
                               description="Build the Java part, if it is missing or stale, and print its jars.")
    java.set_defaults(run=_java)
    return parser


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (1 to 65535)")
    return int(text)


def _java(args) -> None:
    for jar in ensure_built():
        print(jar)


def _reset(args) -> None:
    root = checkout()
    name = _numbered(root, args.number)
    print(reset(name, root / "notebooks", root / "work").message)


def _lab(args) -> None:
    root = checkout()
    try:
        from jupyterlab.labapp import LabApp
    except ImportError:
        raise CommandError("JupyterLab is not installed for this Python; `make lab` sets everything up.") from None
    for action in refresh_copies(root / "notebooks", root / "work"):
        print(action.message)
    port = _free_port(args.port)
    token = secrets.token_hex(24)
    page = "/lab/tree/" + urllib.parse.quote(_page(root, args.notebook))
    _prepare_environment(root)
    _announce_when_ready(port, f"http://{LOOPBACK}:{port}{page}?token={token}")
    # Handed over inside the process: an argument of the command line is visible to every user of the machine.
    LabApp.launch_instance(_server_arguments(root, port, token, page, browser=not args.no_browser))


def _page(root: Path, notebook: str | None) -> str:
    """The path, from the checkout, of the notebook to open; the folder of copies when there is none yet."""
    if notebook is None:
        name = first_notebook(root / "notebooks")
        return f"work/{name}" if name else "work"
    name = _numbered(root, notebook) if notebook.isdigit() else Path(notebook).name
    if not (root / "work" / name).is_file():
        raise CommandError(f"There is no notebook {name} in {root / 'work'}.")
    return f"work/{name}"


def _numbered(root: Path, number: str) -> str:
    try:
        return notebook_name(number, root / "notebooks")
    except ValueError as error:
        raise CommandError(str(error)) from None


def _server_arguments(root: Path, port: int, token: str, page: str, browser: bool) -> list[str]:
    """Settings on the command line win over every configuration file of the user's.

    So whatever a file says about addresses, passwords or certificates, this lab is reachable from this machine only,
    and only with the token.
    """
    settings = {
        "ServerApp.ip": LOOPBACK,
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.sock": "",
        "ServerApp.allow_remote_access": False,
        "ServerApp.base_url": "/",
        "ServerApp.certfile": "",
        "ServerApp.keyfile": "",
        "ServerApp.identity_provider_class": "jupyter_server.auth.identity.PasswordIdentityProvider",
        "PasswordIdentityProvider.hashed_password": "",
        "IdentityProvider.token": token,
        "ServerApp.root_dir": root,
        "LabApp.default_url": page,
        # Through a file that only the user can read; else the token would be in the browser's command line.
        "ServerApp.use_redirect_file": True,
        "ServerApp.open_browser": browser and _has_display(),
        # Quiet, so that the address stays the last thing on the screen; warnings and errors are shown.
        "Application.log_level": "WARN",
    }
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        settings["ServerApp.allow_root"] = True
    return [f"--{name}={value}" for name, value in settings.items()]


def _has_display() -> bool:
    """Without one, Python's webbrowser would start a text browser in the terminal that the server prints to."""
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _prepare_environment(root: Path) -> None:
    """What the kernels and JupyterLab's terminals inherit."""
    # `pagedkv reset 03` works in a terminal and in a cell, also when the virtual environment is not activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.update(utf8_locale(root))


def _free_port(wanted: int | None) -> int:
    ports = [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY)
    for port in ports:
        if _is_free(port):
            return port
    if wanted:
        raise CommandError(f"Port {wanted} is in use. Take another one, or leave out --port to get a free one.")
    raise CommandError(f"No free port from {FIRST_PORT} to {FIRST_PORT + PORTS_TO_TRY - 1}.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":
            # as the server does: a port whose last connection just closed can be had again
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _announce_when_ready(port: int, url: str) -> None:
    """Print the address as soon as it answers, however long JupyterLab takes to start."""
    def wait_and_print():
        while True:
            try:
                socket.create_connection((LOOPBACK, port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        print(f"\n  JupyterLab is ready. Open this address (Ctrl-C here stops it):\n\n    {url}\n", flush=True)

    threading.Thread(target=wait_and_print, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
