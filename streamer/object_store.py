"""Object stores by their URLs: S3 and what speaks as it does, Google's, Azure's, and web servers.

Credentials and the address of a store come from the environment, as AWS_* for S3; for Google's and
Azure's also from the machine. `hf://datasets/OWNER/NAME` stands for addresses of the Hugging Face
hub, with its own variables HF_ENDPOINT and HF_TOKEN. The client is obstore, which an extra brings:
so this module is imported where a URL is used, and nowhere else.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import obstore
import obstore.store

from streamer.errors import SettingsError

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, RetryConfig

_PATIENCE = timedelta(minutes=1)  # with a store that fails; no number of retries ends it before
_RETRIES_MAX = 1_000
_WAITS: BackoffConfig = {  # grow at random, by 2 on average
    "init_backoff": timedelta(seconds=0.2),
    "base": 4,
    "max_backoff": timedelta(seconds=15),
}
_S3_CREDENTIALS = (  # what must be set in the environment: all of one of these
    {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"},
    {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"},
    {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
    {"AWS_METADATA_ENDPOINT"},
    {"AWS_SKIP_SIGNATURE"},
)
_HUB_URL = "https://huggingface.co"
_HUB = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?", re.DOTALL)
_QUERY = re.compile(r"\?[^\s\"]*")  # of a URL, which may sign it


def open_store(url: str, *, timeout: str, patient: bool = True) -> obstore.store.ObjectStore:
    """Return the store with a URL, or the place in it.

    A request takes `timeout` at most, and is sent again for a minute where the store fails, if
    `patient`.

    Raises:
        obstore.exceptions.BaseError: the URL cannot be used.
    """
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"}
    headers = {}
    if url.startswith("hf:"):
        url, headers = hub_address(url, "resolve"), hub_headers()
    options: ClientConfig = {
        "timeout": timeout,
        "connect_timeout": "10s",
        "allow_http": allowed or url.startswith("http:"),
        "default_headers": headers,
    }
    most = _RETRIES_MAX if patient else 0
    retry: RetryConfig = {"max_retries": most, "retry_timeout": _PATIENCE, "backoff": _WAITS}
    return obstore.store.from_url(url, client_options=options, retry_config=retry)


def hub_address(url: str, what: str) -> str:
    """Return the web address of a file (`resolve`), or of the list of a folder (`api/tree`).

    Raises:
        ValueError: the URL is of no dataset.
    """
    found = _HUB.fullmatch(url)
    if not found:
        raise ValueError("it is not of the form hf://datasets/OWNER/NAME@REVISION/PATH")
    name, revision, path = found.groups(default="")
    place, _, kind = what.rpartition("/")
    root = os.environ.get("HF_ENDPOINT", "").rstrip("/") or _HUB_URL
    root = f"{root}/{place}".rstrip("/")
    version = quote(unquote(revision) or "main", safe="~")
    return f"{root}/datasets/{name}/{kind}/{version}/{quote(path)}".rstrip("/")


def hub_headers() -> dict[str, str]:
    """Return the headers that log in to the hub."""
    token = os.environ.get("HF_TOKEN", "").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def check_credentials(url: str, what: str, more: str = "") -> None:
    """Raise SettingsError where only the machine's metadata service could give credentials for S3.

    Its address may be anyone's in the network that the process runs in, so it is asked only where
    the environment names it. `what` is what needs them, `more` another remedy.
    """
    if not url.startswith(("s3:", "s3a:")):
        return
    given = {name for name in os.environ if os.environ[name]}
    if any(needed <= given for needed in _S3_CREDENTIALS):
        return
    raise SettingsError(
        f"{what} need credentials, and the environment has none. Set AWS_ACCESS_KEY_ID "
        "and AWS_SECRET_ACCESS_KEY; or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; or, to use "
        f"the role of the machine, AWS_METADATA_ENDPOINT=http://169.254.169.254{more}."
    )


def said_by(error: Exception) -> str:
    """Return what a store says, in one line, without what signs a URL in it."""
    line = str(error).partition("\n")[0].partition(": <?xml")[0].rstrip(": .")
    return _QUERY.sub("", line)
