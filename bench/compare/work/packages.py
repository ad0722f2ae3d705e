"""Projects whose packages are installed or built by npm, cargo and pip, without a network. Before the clock starts, the project and the
packages lie on the file system, as in a home folder: npm's cache, vendored crates, wheels.

The tools lie on the host's disk. After each cold mount they do the same for a small project there, which reads them.
"""

import importlib.util
import os
import shutil

from projects import cargo
from shared.commands import call, run

from .make import JOBS
from .piece import AS_BEST, Figure, MiB, Piece, Setting


def _project(session, kind):
    """(its folder on the file system, that of the small one)"""
    made, folder = session.inputs.path(kind), session.path("project")
    run("cp", "-a", os.path.join(made, "large"), folder)
    return folder, os.path.join(made, "small")


def _lacks_running(tool, environment):
    """What a piece lacks where the tool is there and does not work, as rustup's cargo without a toolchain."""
    return lambda tree: "" if call(tool, "--version", environment=environment)[0] == 0 else f"{tool} does not run"


def _npm_ci(do, folder):
    return do("npm", "ci", "--offline", "--prefix", folder + "/project", "--cache", folder + "/cache", "--logs-max=0", "--no-audit", "--no-fund", "--no-update-notifier")


def _npm(session):
    folder, small = _project(session, "npm")
    session.cold()
    _npm_ci(run, small)
    for name in ("npm cold", "npm warm"):
        session.note(name, _npm_ci(session.time, folder))
    session.inputs.same_everywhere("node_modules", folder + "/project/node_modules")


def _cargo_build(do, folder):
    return do("cargo", "build", "-q", "--frozen", f"-j{JOBS}", cwd=folder, environment=cargo.environment(folder))


def _cargo(session):
    folder, small = _project(session, "cargo")

    def cold():
        session.cold()
        shutil.rmtree(small + "/target", ignore_errors=True)
        _cargo_build(run, small)

    cold()
    session.note("cargo cold", _cargo_build(session.time, folder))
    shutil.rmtree(folder + "/target")
    session.note("cargo warm", _cargo_build(session.time, folder))
    cold()
    session.note("cargo again cold", _cargo_build(session.time, folder))
    session.note("cargo again warm", _cargo_build(session.time, folder))
    run(folder + "/target/debug/program")


def _pip_install(do, folder, venv):
    return do(venv + "/bin/python", "-m", "pip", "--isolated", "install", "-q", "--no-index", "--no-cache-dir", "--force-reinstall", "--find-links", folder + "/wheels",
              "-r", folder + "/requirements.txt", environment={"PIP_CONFIG_FILE": os.devnull, "PYTHONDONTWRITEBYTECODE": ""})


def _pip(session):
    folder, small = _project(session, "pip")
    venv, another = folder + "/venv", folder + "/another"
    run("cp", "-a", venv, another)
    session.cold()
    _pip_install(run, small, small + "/venv")
    session.note("pip cold", _pip_install(session.time, folder, venv))
    run(another + "/bin/python", "-m", "pip", "install", "--help")  # has pip itself read there
    session.note("pip warm", _pip_install(session.time, folder, another))
    session.inputs.same_everywhere("virtual environments", folder)


def _piece(name, work, figures, tools, packages, what, **more):
    return Piece(name, work, figures, inputs=(name,), tools=tools, settings=(Setting(name, packages, what, budget=packages),), room=lambda settings: settings[name] * MiB, optional=True, **more)


PIECES = (
    _piece("npm", _npm, (
        Figure("npm cold", "s", "npm ci --offline of a made-up project, after a cold mount; npm's cache is on the file system", AS_BEST),
        Figure("npm warm", "s", "the same again, which first removes node_modules", AS_BEST),
    ), ("npm",), "300", "packages of the made-up project of npm", lacks=_lacks_running("npm", {})),
    _piece("cargo", _cargo, (
        Figure("cargo cold", "s", f"cargo build -j{JOBS} of a made-up program and its vendored crates, after a cold mount", AS_BEST),
        Figure("cargo warm", "s", "the same again, when its target folder has been removed", AS_BEST),
        Figure("cargo again cold", "s", "the same with nothing left to do, after a cold mount", AS_BEST),
        Figure("cargo again warm", "s", "the same again", AS_BEST),
    ), ("cargo",), "100", "crates of the made-up program", lacks=_lacks_running("cargo", cargo.environment("/nonexistent"))),
    _piece("pip", _pip, (
        Figure("pip cold", "s", "pip install --no-index of made-up wheels into a virtual environment, all on the file system, after a cold mount", AS_BEST),
        Figure("pip warm", "s", "the same into another one", AS_BEST),
    ), (), "60", "made-up wheels", lacks=lambda _: "" if importlib.util.find_spec("ensurepip") else "python3-venv is not installed"),
)
