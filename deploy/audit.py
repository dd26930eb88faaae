"""Look for known vulnerabilities of the locked packages: pip-audit, for indexes of both kinds.

    python deploy/audit.py requirements/run.lock

pip-audit asks the package index for the page of each locked version, where known vulnerabilities
are. Some mirrors have a package's page alone, which tells the same of its newest version. That one
is asked where the other is missing. A package of which neither tells is named, and fails the audit.
"""

import sys
from typing import Any

import requests
from pip_audit._cli import audit
from pip_audit._service import pypi

unknown: list[str] = []


def session_with_both_pages(*arguments: Any, **options: Any) -> requests.Session:  # noqa: ANN401 - pip-audit's
    """Make pip-audit's session, and have it ask a package's page where a version's is missing."""
    session: requests.Session = make_session(*arguments, **options)
    ask = session.get

    def ask_both(url: str, **given: Any) -> requests.Response:  # noqa: ANN401 - of requests
        answer = ask(url, **given)
        if answer.status_code != requests.codes.not_found:
            return answer
        package, version, page = url.rsplit("/", 2)
        newest = ask(f"{package}/{page}", **given)
        if newest.ok and newest.json()["info"]["version"] == version:
            return newest
        unknown.append(f"{package.rpartition('/')[2]} {version}")
        return answer

    session.get = ask_both  # type: ignore[method-assign, assignment]
    return session


make_session = pypi.caching_session
pypi.caching_session = session_with_both_pages
sys.argv[1:] = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "-r", *sys.argv[1:]]
code = 0
try:
    audit()
except SystemExit as ended:
    code = int(ended.code or 0)
if unknown:
    print("Not told of, since they are not the newest:", ", ".join(sorted(unknown)))
sys.exit(code or bool(unknown))
