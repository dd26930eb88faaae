"""Scopes: a tenant neither sees nor displaces the pages of another one, whatever it publishes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer import Deduplicator, Page
from streamer.config import load_settings
from streamer.errors import SettingsError, StoreMismatch
from streamer.model import Decision
from streamer.sketch.method_signer import make_signer
from streamer.sketch.scopes import ScopedSigner, Scopes, scope_keys
from streamer.sketch.settings import SignatureSettings
from tests.helpers.added import added
from tests.helpers.commands import run

SECRET = bytes(range(32))
BODIES = [b"one two three four five six seven", b"eins zwei drei", b"one two three four five six"]
VICTIM = [f"word{i}" for i in range(120)]


def page(tenant: object, url: str, *words: str, **fields: Any) -> dict[str, Any]:
    return {"url": url, "body": " ".join(words), "tenant": tenant, **fields}


def test_keys_are_mixed_by_the_scope_alone_and_under_the_secret() -> None:
    plain = make_signer(SignatureSettings(), SECRET).sign(BODIES, [0] * 3)
    signers = [make_signer(SignatureSettings(scope="tenant"), key) for key in (SECRET, bytes(32))]
    own, other = signers
    assert isinstance(own, ScopedSigner)
    assert isinstance(other, ScopedSigner)
    both = own.sign_in(BODIES, [0] * 3, [b"a", b"a", b"b"])
    assert np.array_equal(both.sketches, plain.sketches)
    one = own.sign_in(BODIES, [0] * 3, [b"a"] * 3)
    assert np.array_equal(one.keys[:2], both.keys[:2])
    assert not np.isin(one.keys[2], both.keys[2]).any()
    same = plain.keys[0] == plain.keys[2]  # within a scope, pages share the keys that they share
    assert np.array_equal(one.keys[0] == one.keys[2], same)
    mine = one.keys[0] ^ plain.keys[0]
    assert len(set(mine.tolist())) == len(mine), "the hash of a scope does not show in the keys"
    hashes = np.array([Scopes(key).hash(b"a") for key in (SECRET, bytes(32))], np.uint64)
    assert hashes[0] != hashes[1]
    assert scope_keys(plain.keys[:0], hashes[:0]).shape == (0, plain.keys.shape[1])


def test_what_has_no_scope_is_not_signed() -> None:
    signer = make_signer(SignatureSettings(scope="host", text_rules=("a * main",)), SECRET)
    assert isinstance(signer, ScopedSigner)
    with pytest.raises(StoreMismatch, match="a text alone has none"):
        signer.sign(BODIES, [0] * 3)
    with pytest.raises(StoreMismatch, match="a text alone has none"):
        signer.sign_in(BODIES, [0] * 3, [b"a"])
    assert SignatureSettings(scope="a").fingerprint("k") != SignatureSettings().fingerprint("k")


def judged(folder: Path, pages: list[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
    (folder / "p.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pages))
    own = ("--index", folder / "index", "--verdicts", folder / "v.jsonl")
    run("replay", folder / "p.jsonl", *own, *options)
    found = [json.loads(line) for line in (folder / "v.jsonl").read_text().splitlines()]
    return sorted(found, key=lambda each: int(each["page"]["offset"]))


@pytest.mark.parametrize(
    "options",
    [
        ("--near-misses", "0.5"),
        ("--exact",),
        ("--method", "simhash"),
        ("--text", "main", "--bucket-max", "2"),
    ],
    ids=lambda each: each[0],
)
def test_a_tenant_neither_hides_nor_sees_another(tmp_path: Path, options: tuple[str, ...]) -> None:
    near = [*VICTIM[:-6], "quite", "another", "end", "of", "it", "all"]
    attack = [page("evil", f"http://evil/{i}", *VICTIM, f"x{i}") for i in range(5)]  # before it
    attack += [page("evil", "http://evil/short", "two", "words"), page(7, "http://n/", *VICTIM)]
    mine = [page("victim", "http://v/1", *VICTIM), page("victim", "http://v/short", "two", "words")]
    spy = [page("evil", "http://evil/spy", *near), page("spy", "http://spy/", *VICTIM)]
    spy += [page("7", "http://text/", *VICTIM), page("spy", "http://spy/short", "two", "words")]
    again = [page("victim", "http://v/2", *VICTIM), page("victim", "http://v/s2", "two", "words")]
    said = judged(tmp_path, [*attack, *mine, *spy, *again], "--scope", "tenant", *options)
    tenants = [each["tenant"] for each in (*attack, *mine, *spy, *again)]
    for tenant, verdict in zip(tenants, said, strict=True):
        for other in (verdict["representative"], verdict.get("nearest")):
            if other:
                assert tenants[other["page"]["offset"]] == tenant
    unique = [each["url"] for each in said if each["verdict"] == "unique"]
    assert {"http://v/1", "http://v/short", "http://spy/", "http://spy/short"} <= {*unique}
    assert {"http://n/", "http://text/"} <= {*unique}, "a number and a text are two scopes"
    assert [said[-2]["representative"]["url"], said[-1]["representative"]["url"]] == [
        "http://v/1", "http://v/short",
    ]  # fmt: skip
    if "--near-misses" in options:
        assert said[7]["nearest"] is None
    explain = ("explain", "http://spy/", "--index", tmp_path / "index", "--json")
    assert json.loads(run(*explain))["nearest"] is None, "nobody shares its scope"
    with pytest.raises(StoreMismatch):
        run(*explain, "--texts", tmp_path / "p.jsonl")


def test_pages_of_one_host_answer_each_other_only(tmp_path: Path) -> None:
    hosts = ["http://a.example/1", "http://A.example.:80/2", "http://b.example/", "none:1"]
    said = judged(tmp_path, [page(0, url, *VICTIM) for url in hosts], "--scope", "host")
    assert [each["verdict"] for each in said] == ["unique", "duplicate", "unique"]
    letters = (tmp_path / "v.jsonl.dead.jsonl").read_text().splitlines()
    assert [json.loads(each)["code"] for each in letters] == ["missing_scope"]


def test_a_page_without_its_scope_is_a_dead_letter(tmp_path: Path) -> None:
    bad: list[Any] = [None, "", True, 1.5, ["a"], {"a": 1}]
    pages = [page("a", "http://a/", *VICTIM), *(page(each, "http://b/", *VICTIM) for each in bad)]
    del pages[1]["tenant"]
    assert len(judged(tmp_path, pages, "--scope", "tenant")) == 1
    letters = [json.loads(x) for x in (tmp_path / "v.jsonl.dead.jsonl").read_text().splitlines()]
    assert [each["code"] for each in letters] == ["missing_scope"] * len(bad)
    other = ("--index", tmp_path / "index", "--verdicts", tmp_path / "o", "--scope", "host")
    with pytest.raises(StoreMismatch, match="--scope is tenant there and host here"):
        run("replay", tmp_path / "p.jsonl", *other)


def test_the_python_interface_has_scopes_too() -> None:
    with Deduplicator(scope="host") as index:
        found = [*added(index, (Page(f"http://{host}/", " ".join(VICTIM)) for host in ("a", "b")))]
        assert [each.verdict for each in found] == [Decision.UNIQUE] * 2
        asked = index.check(Page("http://b/2", " ".join(VICTIM)))
        assert (asked.representative and asked.representative.url) == "http://b/"
        assert not index.check(Page("http://c/", " ".join(VICTIM))).is_duplicate
        with pytest.raises(StoreMismatch, match="a text alone has none"):
            index.nearest(" ".join(VICTIM))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scope": "domain"}, "no scope domain"),
        ({"scope": "tenant", "track_changes": True}, "does not go with"),
        ({"scope": "tenant", "tombstones": "forget"}, "does not go with"),
        ({"scope": "host", "keep_pages": 10}, "does not go with --keep-pages"),
    ],
    ids=["domain", "changes", "tombstones", "keep pages"],
)
def test_what_would_join_scopes_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(**given)
    assert load_settings(scope="host", track_changes=True).signature.scope == "host"


def test_a_scope_that_was_not_read_whole_joins_no_two_tenants(tmp_path: Path) -> None:
    tenants = [b"M\xfcller", b"M\xf6ller", rb"x\ud800", rb"x\ud801"]
    body = " ".join(VICTIM).encode()
    lines = [b'{"url": "http://x/", "tenant": "%s", "body": "%s"}' % (t, body) for t in tenants]
    (tmp_path / "p.jsonl").write_bytes(b"\n".join(lines))
    options = ("--verdicts", tmp_path / "v.jsonl", "--scope", "tenant", "--keep-going")
    run("replay", tmp_path / "p.jsonl", *options, code=1)
    assert (tmp_path / "v.jsonl").read_bytes() == b""
    letters = (tmp_path / "v.jsonl.dead.jsonl").read_bytes().splitlines()
    assert [json.loads(each)["code"] for each in letters] == ["missing_scope"] * 4
