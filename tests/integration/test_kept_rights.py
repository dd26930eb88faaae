"""`--kept-topic` on a broker that refuses what is not allowed: the rights in users.yaml suffice."""

import signal
from pathlib import Path

from aiokafka.admin import NewTopic
from aiokafka.protocol.admin import CreateAclsRequest

from tests.helpers.broker import administer
from tests.helpers.fleet import Fleet, fleet
from tests.helpers.guarded_broker import NAMES, Right, ask, guarded_broker
from tests.helpers.secure_broker import run
from tests.integration.chaos import make_crawl
from tests.integration.test_kept_topic import see_copies, wait_until_copied

TOPIC, USER = "unique-pages", "streamer-sign"
RIGHTS = [  # in addition; with Read of the pages, which signers have
    Right(USER, "READ", "TOPIC", "LITERAL", NAMES.verdicts),
    Right(USER, "READ", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "WRITE", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "DESCRIBE_CONFIGS", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "READ", "GROUP", "LITERAL", NAMES.kept_group),
    Right(USER, "WRITE", "TRANSACTIONAL_ID", "PREFIXED", NAMES.kept_group),
]
CONFIG = {"max.message.bytes": str(5 << 20), "retention.ms": "-1"}


def refused(workers: Fleet) -> str:
    """Start the signer, which ends with exit code 1; return its log."""
    assert workers.start("sign").wait(timeout=300) == 1, workers.log("sign")
    return workers.log("sign")[workers.marks["sign"] :]


def test_a_signer_with_the_rights_copies_and_a_missing_one_is_named(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as guarded:
        topic = NewTopic(TOPIC, 12, 1, topic_configs=CONFIG)
        administer(guarded.opened, lambda admin: admin.create_topics([topic]))
        guarded.streamer("crawler", "produce", make_crawl(tmp_path, 300), "--topic", NAMES.pages)
        with fleet(tmp_path / "fleet", guarded.address, NAMES) as workers:
            own = ("--role", "index", "--index", tmp_path / "index")
            workers.start("index", *own, *guarded.login("streamer-index"))
            workers.wait_for_log("index", "shard_caught_up")
            kept = ("--role", "sign", "--kept-topic", TOPIC)
            workers.commands["sign"] = (*kept, *guarded.login(USER))
            assert f"may not join the group {NAMES.kept_group}." in refused(workers)
            for each in RIGHTS[:-1]:
                run(ask(guarded.opened, [each.request(CreateAclsRequest)]))
            assert f"Cannot copy kept pages to {TOPIC}: TransactionalIdAuthoriz" in refused(workers)
            run(ask(guarded.opened, [RIGHTS[-1].request(CreateAclsRequest)]))
            workers.start("sign")
            workers.brokers = guarded.opened
            wait_until_copied(workers)
            assert workers.kill("sign", signal.SIGTERM) == 0, workers.log("sign")
        see_copies(guarded.opened, NAMES, TOPIC)
