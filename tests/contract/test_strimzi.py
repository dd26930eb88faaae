"""The topics and users for Strimzi are what the worker would make and needs."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from streamer.kafka.topics import ANY_TIME, MESSAGE_BYTES_MAX, Topic, index_topics, pages_topic
from tests.contract.test_deploy import PODS, SETTINGS, environment, worker
from tests.helpers.guarded_broker import NAMES, RIGHTS, TOPICS, USERS
from tests.helpers.kubernetes_tools import KUBERNETES

COMPONENT = KUBERNETES / "components" / "kafka-users"
BY_NAME: dict[str, dict[str, Any]] = {topic["metadata"]["name"]: topic["spec"] for topic in TOPICS}
USER_NAMES = {user["metadata"]["name"] for user in USERS}


def wanted() -> list[Topic]:
    """Return the topics that the base's worker makes, and that of the pages."""
    partitions, replicas = BY_NAME[NAMES.pages]["partitions"], int(SETTINGS["STREAMER_REPLICAS"])
    pages = pages_topic(NAMES.pages, partitions, replicas)
    return [pages, *index_topics(NAMES, (partitions, MESSAGE_BYTES_MAX), 0, replicas)]


def test_the_topics_are_those_that_the_worker_makes() -> None:
    assert SETTINGS["STREAMER_INPUT_TOPIC"] == NAMES.pages
    assert SETTINGS["STREAMER_INDEX_NAME"] == NAMES.index
    made = {
        topic.name: {
            "partitions": topic.partitions,
            "replicas": topic.replicas,
            "config": {**topic.config, **(ANY_TIME if topic.any_time else {})},
        }
        for topic in wanted()
    }
    assert made == BY_NAME
    assert len(TOPICS) == len(BY_NAME)


def test_no_right_is_given_twice() -> None:
    operations = defaultdict(list)
    for right in RIGHTS:
        operations[right.user, right.resource, right.pattern, right.name].append(right.operation)
    for place, found in operations.items():
        assert len(set(found)) == len(found), place
        if {"READ", "WRITE"} & set(found):
            assert "DESCRIBE" not in found, (place, "Read and Write bring it")
    names = {right.name for right in RIGHTS if right.pattern == "PREFIXED"}
    literal = {right.name for right in RIGHTS if right.pattern == "LITERAL"}
    assert [one for one in literal if one.startswith(tuple(names))] == []


def test_rights_are_for_topics_and_groups_of_the_index() -> None:
    topics, groups = set(BY_NAME), {NAMES.sign_group, NAMES.shard_group(0)}
    for right in RIGHTS:
        there = topics if right.resource == "TOPIC" else groups | {f"{right.user}.any"}
        fitting = {
            name
            for name in there
            if name == right.name or (right.pattern == "PREFIXED" and name.startswith(right.name))
        }
        assert fitting, right


def test_everything_is_of_the_version_that_strimzi_serves() -> None:
    assert {one["apiVersion"] for one in (*TOPICS, *USERS)} == {"kafka.strimzi.io/v1"}
    assert {one["kind"] for one in TOPICS} == {"KafkaTopic"}
    assert {one["kind"] for one in USERS} == {"KafkaUser"}
    for user in USERS:
        assert user["spec"]["authentication"] == {"type": "scram-sha-512"}


def test_each_role_logs_in_as_its_user_with_a_file_of_the_secret() -> None:
    (mount,) = {str(Path(value).parent) for value in SETTINGS.values() if value.startswith("/")}
    patches = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text("utf-8"))["patches"]
    patched = set()
    for patch in patches:
        pod = PODS[f"{patch['target']['kind']} {patch['target']['name']}"]
        role = environment(worker(pod))["STREAMER_ROLE"]["value"]
        operations = yaml.safe_load(patch["patch"])
        added = {one["value"]["name"]: one["value"]["value"] for one in operations}
        assert added == {
            "STREAMER_SASL_USERNAME": f"streamer-{role}",
            "STREAMER_SASL_PASSWORD_FILE": f"{mount}/sasl-password-{role}",
        }
        assert added["STREAMER_SASL_USERNAME"] in USER_NAMES
        assert {one["path"] for one in operations} == {"/spec/template/spec/containers/0/env/-"}
        patched.add(role)
    assert patched == {"sign", "index"}
