"""Tokens that a broker verifies by a file of public keys; as a program, a token command.

It notes each run in a file next to the key: KEY.runs.
"""

import base64
import json
import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE, ISSUER, SUBJECT = "kafka", "https://login.example.org", "streamer"


class TokenSigner:
    """A key in a folder; `jwks` is the file by which brokers verify what it signs."""

    def __init__(self, folder: Path) -> None:
        key = rsa.generate_private_key(65537, 2048)
        self.key = folder / "token.key"
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        public = key.public_key().public_numbers()
        numbers = {"n": _packed(public.n.to_bytes(256)), "e": _packed(public.e.to_bytes(3))}
        keys = [{"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", **numbers}]
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": keys}))

    def command(self, seconds: float = 300.0, form: str = "json") -> str:
        """Return the command that prints a token of so many seconds, as `json` or as a `jwt`."""
        return f"{sys.executable} {__file__} {self.key} {seconds} {form}"

    @property
    def runs(self) -> int:
        """How often the command was run."""
        noted = self.key.with_suffix(".runs")
        return len(noted.read_bytes()) if noted.exists() else 0


def signed(key: bytes, seconds: float) -> str:
    """Return a JWT that expires after so many seconds."""
    now = time.time()
    claims = {"sub": SUBJECT, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + seconds}
    parts = [{"alg": "RS256", "kid": "one"}, claims]
    text = ".".join(_packed(json.dumps(part).encode()) for part in parts)
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, rsa.RSAPrivateKey)
    signature = private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{_packed(signature)}"


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _main(key: str, seconds: str, form: str) -> None:
    with Path(key).with_suffix(".runs").open("a") as noted:
        noted.write("x")
    token = signed(Path(key).read_bytes(), float(seconds))
    answer = {"access_token": token, "token_type": "Bearer", "expires_in": float(seconds)}
    sys.stdout.write(json.dumps(answer) if form == "json" else token)


if __name__ == "__main__":
    _main(*sys.argv[1:])
