"""Commands in this process: what they print, and the error that they end with."""

from typer.testing import CliRunner, Result

from streamer.cli.main import app
from streamer.errors import StreamerError


def invoked(*arguments: object, columns: int | None = None, code: int = 0) -> Result:
    """Run a command, which must end with this code; what it raises is raised here."""
    wide = {"COLUMNS": str(columns)} if columns else {}
    done = CliRunner().invoke(app, [*map(str, arguments)], env=wide)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def run(*arguments: object, columns: int | None = None, code: int = 0) -> str:
    """Return what a command prints."""
    return invoked(*arguments, columns=columns, code=code).stdout


def refusal(*arguments: object) -> tuple[StreamerError, str]:
    """Return the error that a command ends with, and what it has printed before."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert isinstance(done.exception, StreamerError), done.output
    return done.exception, done.stdout


def ended(*arguments: object) -> tuple[int, str]:
    """Return the exit code of a command, and all that it said, its error too, on one line."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    code = getattr(done.exception, "exit_code", done.exit_code)
    return code, " ".join(f"{done.output} {done.exception or ''}".split())
