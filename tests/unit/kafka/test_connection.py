"""The settings of a connection: which are refused, and what the clients get of the others."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, get_args

import faust
import pytest
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list

from streamer.errors import SettingsError, StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import reach
from streamer.panels import Mechanism
from tests.helpers.secure_broker import Authority, run

MECHANISMS = {*get_args(Mechanism)} - {"OAUTHBEARER"}
BROKERS = "a.example:9092,b.example:9093"
PASSWORD = "hunter2-hunter2"  # noqa: S105 - of nobody
SCRAM: dict[str, Any] = {
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "me",
    "sasl_password": PASSWORD,
}
TOKEN: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_token_command": "true"}
SECURED: list[tuple[str, dict[str, Any]]] = [
    ("SSL", {}),
    ("SASL_SSL", SCRAM),
    ("SASL_PLAINTEXT", SCRAM),
]


def refusal(protocol: Any = "PLAINTEXT", *, brokers: Any = BROKERS, **settings: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        Connection(brokers, protocol, **settings)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    "brokers",
    [
        "", ",", "a.example", "a.example:", ":9092", "a.example:0", "a.example:65536",
        "a.example:9092,", "a.example:9092;b.example:9092", "kafka://a.example:9092",
        "a.example:9092/x", "::1:9092", "a example:9092", "a.example:٩٠٩٢",
    ],
)  # fmt: skip
def test_brokers_that_are_not_host_and_port_are_refused(brokers: str) -> None:
    message = refusal(brokers=f"c.example:1,{brokers}")
    assert f"{brokers.rpartition(',')[2].strip()!r} is no broker" in message
    assert message.endswith("Give HOST:PORT,HOST:PORT, with ports of 1 to 65535.")


def test_credentials_among_the_brokers_are_refused_and_not_repeated() -> None:
    message = refusal(brokers=f"kafka://me:{PASSWORD}@a.example:9092")
    assert "the user by --sasl-username" in message


def test_spaces_around_the_brokers_do_not_matter() -> None:
    assert Connection(" a.example:1 , [::1]:2\n").servers == ["a.example:1", "[::1]:2"]


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("absent", [None, ""])
@pytest.mark.parametrize("setting", SCRAM)
def test_sasl_needs_mechanism_and_login(protocol: str, setting: str, absent: str | None) -> None:
    message = refusal(protocol, **{**SCRAM, setting: absent})
    assert f"{protocol} needs --{setting.replace('_', '-')} too" in message


@pytest.mark.parametrize("setting", SCRAM)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_credentials_that_a_protocol_does_not_use_are_refused(protocol: str, setting: str) -> None:
    message = refusal(protocol, **{setting: SCRAM[setting]})
    assert f"{protocol} does not use --{setting.replace('_', '-')}. Name SASL_SSL" in message


def test_a_password_is_not_sent_readable() -> None:
    message = refusal("SASL_PLAINTEXT", **{**SCRAM, "sasl_mechanism": "PLAIN"})
    assert "would send the password readable" in message
    assert "would send the token readable" in refusal("SASL_PLAINTEXT", **TOKEN)
    assert Connection(BROKERS, "SASL_SSL", **{**SCRAM, "sasl_mechanism": "PLAIN"})


def test_tokens_need_a_command_and_no_login() -> None:
    assert "needs --sasl-token-command too" in refusal("SASL_SSL", sasl_mechanism="OAUTHBEARER")
    for name in ("sasl_username", "sasl_password"):
        message = refusal("SASL_SSL", **TOKEN, **{name: PASSWORD})
        assert f"OAUTHBEARER does not use --{name.replace('_', '-')}. Leave" in message
    message = refusal("SASL_SSL", **TOKEN | SCRAM)
    assert "SCRAM-SHA-512 does not use --sasl-token-command. Leave it out" in message
    message = refusal("SSL", **TOKEN)
    assert "SSL does not use --sasl-mechanism, --sasl-token-command. Name SASL_SSL" in message


def test_all_clients_get_the_same_tokens() -> None:
    made = Connection(BROKERS, "SASL_SSL", **TOKEN)
    options = made.client_options()
    assert options["sasl_mechanism"] == "OAUTHBEARER"
    assert options["sasl_oauth_token_provider"] is made.tokens
    assert "sasl_plain_password" not in options
    credentials = made.faust_options()["broker_credentials"]
    assert credentials_to_aiokafka_auth(credentials) == {
        name: value for name, value in options.items() if name != "bootstrap_servers"
    }


@pytest.mark.parametrize("setting", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize(("protocol", "more"), [("PLAINTEXT", {}), ("SASL_PLAINTEXT", SCRAM)])
def test_certificates_do_not_go_with_a_protocol_without_tls(
    protocol: str, more: dict[str, Any], setting: str, authority: Authority
) -> None:
    message = refusal(protocol, **{**more, setting: authority.cafile})
    assert f"does not use --{setting.replace('_', '-')}. Name " in message


def test_a_certificate_and_its_key_go_together(authority: Authority) -> None:
    certfile, keyfile = authority.give("pair")
    assert "--ssl-keyfile is missing" in refusal("SSL", ssl_certfile=certfile)
    assert "--ssl-certfile is missing" in refusal("SSL", ssl_keyfile=keyfile)
    own, locked = authority.give("encrypted", passphrase=b"open")
    assert "cannot be used together" in refusal("SSL", ssl_certfile=own, ssl_keyfile=keyfile)
    message = refusal("SSL", ssl_certfile=own, ssl_keyfile=locked)
    assert message == f"--ssl-keyfile {locked} is encrypted. Give a key without a passphrase."


def test_an_unreadable_file_is_named_with_the_cause(authority: Authority, tmp_path: Path) -> None:
    certfile, keyfile = authority.give("unread")
    absent = tmp_path / "absent.pem"
    assert f"--ssl-cafile {absent}: No such file" in refusal("SSL", ssl_cafile=absent)
    assert f"--ssl-cafile {tmp_path}: Is a directory" in refusal("SSL", ssl_cafile=tmp_path)
    assert "null" in refusal("SSL", ssl_cafile="a\0b")
    message = refusal("SSL", ssl_certfile=absent, ssl_keyfile=keyfile)
    assert f"--ssl-certfile {absent}: No such file" in message
    message = refusal("SASL_SSL", **SCRAM, ssl_certfile=certfile, ssl_keyfile=absent)
    assert f"--ssl-keyfile {absent}: No such file" in message


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_certificates_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(content)
    message = refusal("SSL", ssl_cafile=tmp_path / "ca.pem")
    assert "ca.pem has no certificates that can be used" in message


def test_the_password_is_not_shown() -> None:
    shown = repr(Connection(BROKERS, "SASL_SSL", **SCRAM))
    assert PASSWORD not in shown
    assert "SASL_SSL" in shown


@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("PLAINTEXT", {}),
        *SECURED,
        *(("SASL_SSL", {**SCRAM, "sasl_mechanism": each}) for each in sorted(MECHANISMS)),
    ],
)
def test_aiokafka_gets_the_protocol_and_all_it_needs(protocol: Any, more: dict[str, Any]) -> None:
    options = Connection(BROKERS, protocol, **more).client_options()
    context = options.pop("ssl_context", None)
    assert (context is not None) == protocol.endswith("SSL")
    names = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
    assert options == {
        "bootstrap_servers": ["a.example:9092", "b.example:9093"],
        "security_protocol": protocol,
        **{names.get(name, name): value for name, value in more.items()},
    }


@pytest.mark.parametrize(("protocol", "more"), [("PLAINTEXT", {}), *SECURED])
def test_faust_makes_the_same_of_its_options(protocol: Any, more: dict[str, Any]) -> None:
    connection = Connection("a.example:9092,[::1]:9093", protocol, **more)
    conf = faust.App("test", web_enabled=False, **connection.faust_options()).conf
    made = credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)
    given = {name: value for name, value in made.items() if value is not None}
    assert given | {"bootstrap_servers": server_list(conf.broker, 1)} == connection.client_options()
    assert {url.scheme for url in conf.broker} == {"kafka"}
    assert conf.broker == conf.broker_consumer == conf.broker_producer


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_certificates_and_host_names_are_verified(protocol: Any, authority: Authority) -> None:
    more = SCRAM if protocol == "SASL_SSL" else {}
    connection = Connection(BROKERS, protocol, ssl_cafile=authority.cafile, **more)
    context = connection.client_options()["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [dict(*c["subject"])["commonName"] for c in context.get_ca_certs()] == ["ca"]
    system = Connection(BROKERS, protocol, ssl_cafile="", **more).client_options()["ssl_context"]
    assert system.cert_store_stats() == ssl.create_default_context().cert_store_stats()


def test_a_broker_that_is_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        made = Connection(f"127.0.0.1:{silent.getsockname()[1]}", "SSL")
        with pytest.raises(StreamerError, match="it does not answer, check --brokers"):
            run(asyncio.wait_for(reach(made, timeout_s=0.2), 5))


def test_the_cause_is_told_for_each_broker_that_is_not_reached() -> None:
    with pytest.raises(StreamerError) as refused:
        run(reach(Connection("127.0.0.1:1,[::1]:1")))
    assert "over PLAINTEXT: 127.0.0.1:1: it is not reached ([Errno " in str(refused.value)
    assert "; [::1]:1: it is not reached ([Errno " in str(refused.value)
