"""How the brokers are reached: one set of settings for aiokafka and for Faust.

A `Connection` exists only if its settings make sense together. Nothing is inferred: the protocol is
the one that is named. So credentials are never dropped, and never sent in the clear because another
setting was forgotten. Settings that the protocol does not use are refused. PLAIN sends the password
itself and is refused without TLS, on loopback too. SCRAM proves the password without sending it, so
it is accepted on SASL_PLAINTEXT, where pages are as readable as on PLAINTEXT. OAUTHBEARER sends a
token, which is a password for a while, and is refused as PLAIN is. Certificates and host names are
always verified.

The password must not appear in a message, nor in `repr`.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.given_file import read_given, trust
from streamer.panels import OAUTHBEARER, Mechanism, Protocol

if TYPE_CHECKING:
    from streamer.kafka.token_command import TokenCommand

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PORT_MAX = 65535


@dataclass(frozen=True)
class Connection:
    """Say where the brokers are, and what we show them; an empty string counts as not given.

    Without `ssl_cafile` the system's certificate authorities are trusted. The files are read once,
    here: a renewed certificate takes effect at the next start.

    Attributes:
        brokers: HOST:PORT of one or more brokers to begin with, with commas between them.

    Raises:
        SettingsError: on construction, if no client could be made so, or not safely.
    """

    brokers: str
    security_protocol: Protocol = "PLAINTEXT"
    ssl_cafile: str | Path | None = None
    ssl_certfile: str | Path | None = None
    ssl_keyfile: str | Path | None = None
    sasl_mechanism: Mechanism | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_token_command: str | None = None

    def __post_init__(self) -> None:
        self._check_sasl()
        self._check_files()
        _ = self.servers, self._ssl_context, self.tokens  # made now, so that a fault shows now

    @cached_property
    def servers(self) -> list[str]:
        """HOST:PORT of each broker, in the order given."""
        if "@" in self.brokers:  # not shown: a password may stand before it
            raise SettingsError(
                "--brokers holds an @. Give HOST:PORT,HOST:PORT, and the user by --sasl-username."
            )
        servers = [part.strip() for part in self.brokers.split(",")]
        for server in servers:
            found = _BROKER.fullmatch(server)
            if not found or not 0 < int(found[2]) <= _PORT_MAX:
                raise SettingsError(
                    f"--brokers {self.brokers!r}: {server!r} is no broker. "
                    f"Give HOST:PORT,HOST:PORT, with ports of 1 to {_PORT_MAX}."
                )
        return servers

    def client_options(self) -> dict[str, Any]:
        """Return what every client of aiokafka takes to connect: producer, consumer, admin."""
        return {"bootstrap_servers": self.servers, **self.security_options()}

    def security_options(self) -> dict[str, Any]:
        """Return what aiokafka takes to be let in: `client_options` without the brokers."""
        options: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self._tls:
            options["ssl_context"] = self._ssl_context
        if self._sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
        if self.tokens:
            options["sasl_oauth_token_provider"] = self.tokens
        elif self._sasl:
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options

    def faust_options(self) -> dict[str, Any]:
        """Return what `faust.App` takes to connect as `client_options` says."""
        # Faust takes a quarter of a second to import, which most commands do without.
        from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials  # noqa: PLC0415

        options: dict[str, Any] = {"broker": [f"kafka://{server}" for server in self.servers]}
        if self.tokens:
            credentials = OAuthCredentials(oauth_cb=self.tokens, ssl_context=self._ssl_context)
            options["broker_credentials"] = credentials
        elif self._sasl:
            options["broker_credentials"] = SASLCredentials(
                mechanism=self.sasl_mechanism,
                username=self.sasl_username,
                password=self.sasl_password,
                ssl_context=self._ssl_context,  # None makes it SASL_PLAINTEXT
            )
        elif self._tls:
            options["broker_credentials"] = SSLCredentials(context=self._ssl_context)
        return options

    @property
    def _sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def _tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @cached_property
    def tokens(self) -> TokenCommand | None:
        """What gives the tokens of OAUTHBEARER."""
        if not self.sasl_token_command:
            return None
        # A replay of files has a connection's settings too, and does without the client library.
        from streamer.kafka.token_command import TokenCommand  # noqa: PLC0415

        return TokenCommand(self.sasl_token_command)

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext | None:
        if not self._tls:
            return None
        context = trust("--ssl-cafile", self.ssl_cafile or None)
        if self.ssl_certfile and self.ssl_keyfile:
            _show(context, self.ssl_certfile, self.ssl_keyfile)
        return context

    def _options(self, *names: str) -> dict[str, Any]:
        """Return these settings by the options that give them."""
        return {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}

    def _check_sasl(self) -> None:
        login = self._options("sasl_username", "sasl_password")
        token = self._options("sasl_token_command")
        settings = self._options("sasl_mechanism") | login | token
        given = [option for option, value in settings.items() if value]
        if not self._sasl:
            self._refuse_unused(given, "SASL_SSL" if self._tls else "SASL_SSL or SASL_PLAINTEXT")
            return
        wanted, others = (token, login) if self.sasl_mechanism == OAUTHBEARER else (login, token)
        if missing := [one for one in ("--sasl-mechanism", *wanted) if one not in given]:
            how = " (the password best by --sasl-password-file)" if wanted is login else ""
            raise SettingsError(
                f"--security-protocol {self.security_protocol} needs {', '.join(missing)} too. "
                f"Give them{how}."
            )
        if unused := ", ".join(one for one in others if one in given):
            raise SettingsError(
                f"--sasl-mechanism {self.sasl_mechanism} does not use {unused}. Leave it out, or "
                "name another mechanism."
            )
        if self.sasl_mechanism in {"PLAIN", OAUTHBEARER} and not self._tls:
            what = "password" if self.sasl_mechanism == "PLAIN" else "token"
            raise SettingsError(
                f"--sasl-mechanism {self.sasl_mechanism} over {self.security_protocol} would send "
                f"the {what} readable. Name SASL_SSL, or a SCRAM mechanism."
            )

    def _check_files(self) -> None:
        files = self._options("ssl_cafile", "ssl_certfile", "ssl_keyfile")
        given = {option: path for option, path in files.items() if path}
        if not self._tls:
            self._refuse_unused(given, "SASL_SSL" if self._sasl else "SSL or SASL_SSL")
        pair = ["--ssl-certfile", "--ssl-keyfile"]
        if len(missing := [option for option in pair if option not in given]) == 1:
            raise SettingsError(f"{missing[0]} is missing. Give both {' and '.join(pair)}.")
        for option, path in given.items():
            try:
                read_given(Path(path))
            except (OSError, ValueError) as error:
                cause = getattr(error, "strerror", None) or error
                said = f"Cannot read {option} {path}: {cause}. Name a readable file."
                raise SettingsError(said) from error

    def _refuse_unused(self, options: Iterable[str], remedy: str) -> None:
        if names := ", ".join(options):
            raise SettingsError(
                f"--security-protocol {self.security_protocol} does not use {names}. "
                f"Name {remedy} as the protocol, or leave them out."
            )


def _show(context: ssl.SSLContext, certfile: str | Path, keyfile: str | Path) -> None:
    """Load the client's certificate, without the question for a passphrase on the terminal."""

    def no_passphrase() -> str:
        raise SettingsError(
            f"--ssl-keyfile {keyfile} is encrypted. Give a key without a passphrase."
        )

    try:
        context.load_cert_chain(certfile, keyfile, password=no_passphrase)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"--ssl-certfile {certfile} and --ssl-keyfile {keyfile} cannot be used together: "
            f"{error}. Give a certificate and its key in PEM form."
        ) from error


def connection_of(settings: Settings) -> Connection:
    """Return the connection that the settings ask for.

    Raises:
        SettingsError: they do not make sense together.
    """
    named = {one.name: getattr(settings, one.name) for one in fields(Connection)}
    return Connection(**named | {"sasl_password": settings.password("sasl_password")})
