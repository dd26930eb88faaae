"""A broker with TLS, SCRAM and tokens, and the certificates that belong to it."""

import asyncio
import gc
import ipaddress
import os
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tests.helpers.broker import running_broker
from tests.helpers.ports import free_ports, listens
from tests.helpers.tokens import AUDIENCE, ISSUER, TokenSigner
from tests.helpers.wait import wait_until

T = TypeVar("T")

USER = "streamer"
PASSWORD = "correct horse=battery"  # noqa: S105 - of a broker that lives as long as a test

_SETTINGS = """\
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server-store.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
"""
# Kafka's own validator, which verifies signature, audience, issuer and expiry. A connection ends
# with the life of its token.
_TOKENS = """\
{listener}.sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
{listener}.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
{listener}.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
{listener}.oauthbearer.connections.max.reauth.ms=3600000
sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator
sasl.oauthbearer.jwks.endpoint.url={jwks}
sasl.oauthbearer.expected.audience={audience}
sasl.oauthbearer.expected.issuer={issuer}
"""
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Authority:
    """A certificate authority: its own certificate, and those that it gives out, in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _certificate(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.cafile = folder / f"{name}.pem"
        self.cafile.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def give(
        self,
        name: str,
        addresses: tuple[str, ...] = ("127.0.0.1",),
        passphrase: bytes | None = None,
    ) -> tuple[Path, Path]:
        """Write a certificate of localhost and addresses or names, and its key; return both."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts: list[x509.GeneralName] = [x509.DNSName("localhost")]
        hosts += [_host(address) for address in addresses]
        certificate = _certificate(subject, self._name, key).add_extension(
            x509.SubjectAlternativeName(hosts), critical=False
        )
        secret: KeySerializationEncryption = NoEncryption()
        if passphrase:
            secret = BestAvailableEncryption(passphrase)
        certfile, keyfile = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certfile.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        keyfile.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
        return certfile, keyfile


@dataclass(frozen=True)
class SecureBroker:
    """The addresses of a broker, one for each protocol; `ssl` wants a client's certificate."""

    authority: Authority
    tokens: TokenSigner
    plaintext: str
    ssl: str
    sasl_ssl: str
    sasl_plaintext: str


def listeners(ports: dict[str, int]) -> str:
    """Return the settings of a broker with a listener for each protocol, by SCRAM where it logs in.

    That of the controller is next to PLAINTEXT, as deploy/broker/broker has it.
    """
    opened = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    lines = [
        f"listeners={opened},CONTROLLER://127.0.0.1:{ports['PLAINTEXT'] + 1}",
        f"advertised.listeners={opened}",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in ports),
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
    ]
    logins = [f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config" for name in ports]
    lines += [f"{name}={_LOGIN}" for name in logins if ".sasl_" in name]
    return "\n".join(lines) + "\n"


@contextmanager
def running_secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """Start a broker with a listener for each protocol and one user; stop it at the end."""
    authority = Authority(folder)
    certfile, keyfile = authority.give("server")
    (folder / "server-store.pem").write_bytes(keyfile.read_bytes() + certfile.read_bytes())
    names = ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    extra = folder / "extra.properties"
    tokens = TokenSigner(folder)
    own = _TOKENS.format(
        listener="listener.name.sasl_ssl",
        jwks=tokens.jwks.as_uri(),
        audience=AUDIENCE,
        issuer=ISSUER,
    )
    extra.write_text(listeners(ports) + _SETTINGS.format(folder=folder) + own)
    environment = {
        "BROKER_JAVA": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.jwks.as_uri()}",
        "BROKER_EXTRA": str(extra),
        "BROKER_SCRAM": f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
    }
    with patch.dict(os.environ, environment), running_broker(folder, ports["PLAINTEXT"]):
        wait_until(lambda: all(map(listens, ports.values())))  # they open one after the other
        yield SecureBroker(authority, tokens, *(f"127.0.0.1:{port}" for port in ports.values()))


def run(steps: Coroutine[Any, Any, T]) -> T:
    """Run steps in a loop of their own; afterwards nothing of their connections is left.

    aiokafka does not wait until a connection that failed is closed. Such a socket would be found
    by the garbage collector in the midst of some other test, as a warning there.
    """
    try:
        return asyncio.run(steps)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(hours=1),
        not_valid_after=now + timedelta(days=1),
    )


def _host(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
