"""The fold of an index's topics: verdicts and dead letters to the view.

The topics are read without a consumer group, committed messages only, from the positions that the
view has: no broker or worker holds anything for the console, and reading needs the rights of a
reader only. A view is of topics of certain ids;
where one was deleted and made again, the view is made again, too. While the brokers are away, all
that was folded is shown as it is, and they are asked again every second.
"""

# A dead connection is given up with its event loop: aiokafka (0.14) raises the cancellation of its
# own tasks when it is stopped while brokers are away, and leaves others behind. A consumer group
# would be one more thing to clean up, and to be allowed.

import asyncio
import itertools
import logging
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import BrokerResponseError, KafkaError

from streamer.console.fold import Fold, FoldedInput, FoldState, PartitionLag, moment
from streamer.console.inputs import FoldedLine, decode_line
from streamer.console.view import VerdictView
from streamer.errors import InputError, StreamerError, on_failure
from streamer.kafka.connection import Connection
from streamer.kafka.dead_letters import dead_letter_in, is_of_index
from streamer.kafka.reader import Reader, fetch_all, open_reader, reach
from streamer.kafka.topics import Names, topic_id

_POLL_MILLISECONDS = 200
_RECORDS_MAX = 10_000  # of a round
_FETCH_BYTES = 1 << 20  # of a partition; one larger message comes all the same
_LOOK_SECONDS = 1.0  # between two looks at lags
_LAYOUT_SECONDS = 5.0  # between two looks at which topics there are
_PATIENCE_SECONDS = 10.0  # for one answer of the brokers
_LAG_SECONDS = 4.0  # for how far signing is, which a topic that was deleted may hold up
_CANCEL_SECONDS = 0.1  # that the client has to give up what it waits for
_AHEAD_MILLISECONDS = 24 * 3600 * 1000  # that the clock of a broker may be ahead

_Result = TypeVar("_Result")
_log = logging.getLogger("streamer")


class Layout(NamedTuple):
    """The topics that exist: partitions of each, ids of those that are folded."""

    partitions: Mapping[str, list[int]]
    ids: Mapping[str, str]

    def places(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of topics; none of one that does not exist."""
        return [
            TopicPartition(topic, each)
            for topic in topics
            for each in self.partitions.get(topic, ())
        ]

    def missing(self, names: Names) -> str:
        """Return which topic of the index does not exist, and what to do; '' for none."""
        if names.verdicts not in self.partitions:
            return (
                f"There is no topic {names.verdicts}: no worker of the index {names.index} has "
                "begun, or it was deleted. Check --index-name and --brokers, or start a worker."
            )
        if names.pages not in self.partitions:
            return f"There is no topic {names.pages}. Name the topic of pages by --input-topic."
        return ""


async def layout_of(reader: Reader, names: Names) -> Layout:
    """Return which topics exist now; asking creates none of them.

    Raises:
        StreamerError, KafkaError: the brokers are away or refuse.
    """
    found = await reader.admin.describe_topics(None)
    partitions = {
        each["topic"]: sorted(part["partition"] for part in each["partitions"])
        for each in found
        if not each["error_code"]
    }
    folded = [name for name in (names.verdicts, names.dead_letters) if name in partitions]
    return Layout(partitions, {name: await topic_id(reader.admin, name) for name in folded})


async def lag_by_partition(reader: Reader, names: Names, layout: Layout) -> list[PartitionLag]:
    """Return how many messages of each partition of pages are not signed yet.

    Raises:
        InputError: the index is of another topic.
        KafkaError: the brokers are away or refuse.
    """
    places = layout.places(names.pages)
    if not places:
        return []
    ends = await reader.consumer.end_offsets(places)
    starts = await reader.consumer.beginning_offsets(places)
    try:
        committed = await reader.admin.list_consumer_group_offsets(names.sign_group)
    except KafkaError:  # not allowed, or the coordinator is being looked for
        return [PartitionLag(place.partition, ends[place], None) for place in places]
    signed = {place: one.offset for place, one in committed.items() if one.offset >= 0}
    topics = {place.topic for place in signed}
    if topics and names.pages not in topics:
        raise InputError(
            f"The workers of {names.index} sign the pages of {', '.join(sorted(topics))}, not of "
            f"{names.pages}. Name the topic of pages by --input-topic."
        )
    lags = {each: ends[each] - signed.get(each, starts[each]) for each in places}
    return [PartitionLag(each.partition, ends[each], max(0, lag)) for each, lag in lags.items()]


class TopicFold(Fold):
    """Folds the topics of an index into a view; all its methods for one thread."""

    def __init__(self, view: VerdictView, connection: Connection, names: Names) -> None:
        super().__init__(view, ())
        self._brokers, self._names = connection, names
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._reader: Reader | None = None
        self._layout = Layout({}, {})
        self._layout_at = self._looked_at = 0.0
        self._ended: dict[TopicPartition, int] = {}  # where the partitions ended at the start
        self._is_beyond = False  # whether the view has messages that are no longer there
        self._lags: list[PartitionLag] = []
        self._missing = ""  # a topic that does not exist, or is not of the index
        self._answered_at = 0.0  # when the brokers answered last, in seconds since 1970

    def state(self) -> FoldState:
        """Return how far the fold is and how far signing is behind, from any thread."""
        found = super().state()
        trouble = found.trouble or self._missing
        return msgspec.structs.replace(found, trouble=trouble, lags=self._lags)

    def _has_changed(self) -> bool:
        """Return whether the view is of files, or of topics that were made again; connect."""
        if self._reader is None:
            self._ask_brokers(self._connect())
        for row in self._inputs():
            topic = row.path.rpartition("/")[0]
            if topic not in {self._names.verdicts, self._names.dead_letters}:
                return True
            if row.witness != self._layout.ids.get(topic, row.witness):
                return True
        return self._is_beyond

    def _begin_again(self) -> None:
        super()._begin_again()
        self._disconnect()
        self._ask_brokers(self._connect())

    def _fold_inputs(self) -> None:
        """Fold what the topics have, until nothing more comes; look at the lags meanwhile."""
        while True:
            found, is_at_end = self._ask_brokers(self._fetch())
            # The client is past these messages, and the view is not.
            with on_failure(self._disconnect):
                for place, messages, position in found:
                    self._fold_messages(place, messages, position)
            if self._ask_brokers(self._look()):
                self._disconnect()
                return  # other topics: `_has_changed` sees which
            if is_at_end and not found:
                return

    # ---- the brokers -----------------------------------------------------------------------------

    def _ask_brokers(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return what the brokers answer.

        Raises:
            StreamerError: they are away, or refuse.
        """
        try:
            return self._runner.run(_wait(work))
        except (StreamerError, KafkaError, OSError, TimeoutError) as error:
            self._disconnect()
            self._answered_at = self._answered_at or time.time()
            raise StreamerError(_cause(error, moment(self._answered_at))) from error

    async def _connect(self) -> None:
        """Begin to read all partitions at the positions of the view."""
        await reach(self._brokers, timeout_s=_PATIENCE_SECONDS / 2 / len(self._brokers.servers))
        options = self._brokers.client_options()
        reader = await self._stack.enter_async_context(open_reader(options, _FETCH_BYTES))
        self._layout, names = await layout_of(reader, self._names), self._names
        self._layout_at, self._reader = time.monotonic(), reader
        places = self._layout.places(names.verdicts, names.dead_letters)
        reader.consumer.assign(places)
        if not places:
            return
        starts = await reader.consumer.beginning_offsets(places)
        self._ended = await reader.consumer.end_offsets(places)
        self._is_beyond = False
        for place in places:
            reader.consumer.seek(place, self._begin(place, starts[place]))

    def _begin(self, place: TopicPartition, start: int) -> int:
        """Return where a partition is read on; note what has expired unread."""
        row = self._row(place)
        self._is_beyond |= row.position > self._ended[place]
        if row.position < start:
            before = re.match(r"\S+: ([0-9,]+) messages expired", row.note)
            count = start - row.position + (int(before[1].replace(",", "")) if before else 0)
            note = (
                f"{row.path}: {count:,} messages expired before they were read, so the figures "
                "are without them."
            )
            self._save(row._replace(position=start, note=note))
        return max(start, row.position)

    def _disconnect(self) -> None:
        self._reader, stack, self._stack = None, self._stack, AsyncExitStack()
        try:
            self._runner.run(_wait(stack.aclose(), _PATIENCE_SECONDS / 2))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is given up
            _log.debug("A connection could not be closed: %r", error)
        self._runner.close()
        self._runner = asyncio.Runner()

    async def _fetch(self) -> tuple[list[tuple[TopicPartition, Sequence[Any], int]], bool]:
        """Return what comes next, and whether all is read that there was at the start.

        It is a list of messages of each partition, and where they end.
        """
        assert self._reader
        consumer = self._reader.consumer
        if not consumer.assignment():
            await asyncio.sleep(_POLL_MILLISECONDS / 1000)
            return [], True
        starts = {place: await consumer.position(place) for place in self._ended}
        found = await fetch_all(consumer, starts, _RECORDS_MAX)
        read: list[tuple[TopicPartition, Sequence[Any], int]]
        read = [(place, held, await consumer.position(place)) for place, held in found.items()]
        at = [await consumer.position(place) >= end for place, end in self._ended.items()]
        return read, all(at)

    async def _look(self) -> bool:
        """Look how far signing is, if it is time; return whether topics have come or gone."""
        assert self._reader
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        is_due = now - self._layout_at >= _LAYOUT_SECONDS or not self._layout.ids
        if is_due and await self._has_other_topics():
            return True
        lags, self._missing = list[PartitionLag](), self._layout.missing(self._names)
        try:
            async with asyncio.timeout(_LAG_SECONDS):
                places = self._layout.places(self._names.verdicts)
                ends = await self._reader.consumer.end_offsets(places) if places else {}
                lags = await lag_by_partition(self._reader, self._names, self._layout)
        except TimeoutError:  # the client waits for the leader of a topic that was just deleted
            if await self._has_other_topics():
                return True
            raise
        except InputError as error:
            self._missing = str(error)
        self.pace.note(sum(ends.values()))
        self._lags = lags
        self._looked_at, self._answered_at = time.monotonic(), time.time()
        return False

    async def _has_other_topics(self) -> bool:
        """Look which topics there are; return whether those that are folded have changed."""
        assert self._reader
        before, self._layout = self._layout, await layout_of(self._reader, self._names)
        self._layout_at, self._missing = time.monotonic(), self._layout.missing(self._names)
        return self._list_folded(before) != self._list_folded(self._layout)

    def _list_folded(self, layout: Layout) -> tuple[Mapping[str, str], list[TopicPartition]]:
        names = self._names
        return layout.ids, layout.places(names.verdicts, names.dead_letters)

    # ---- messages --------------------------------------------------------------------------------

    def _fold_messages(self, place: TopicPartition, messages: Sequence[Any], position: int) -> None:
        """Fold messages of a partition, those of each minute in a transaction.

        A message that the view cannot hold is skipped alone.
        """
        latest = time.time() * 1000 + _AHEAD_MILLISECONDS

        def minute_of(message: Any) -> int:  # noqa: ANN401 - the client library's
            return int(min(max(message.timestamp, 0), latest)) // 60_000

        for minute, group in itertools.groupby(messages, minute_of):
            held = [*group]
            after = position if held[-1] is messages[-1] else held[-1].offset + 1
            try:
                self._fold_group(place, held, after, minute)
            except InputError as error:
                if len(held) > 1:
                    for message in held:
                        self._fold_messages(place, [message], message.offset + 1)
                    continue
                row = self._row(place)
                note = row.note or _describe_skipped(place, held[0], error.__cause__ or error)
                self._save(row._replace(position=after, lines=row.lines + 1, note=note))

    def _fold_group(self, place: TopicPartition, held: list[Any], after: int, minute: int) -> None:
        """Fold messages of a partition, up to the position `after`, in one transaction.

        Raises:
            InputError: the view cannot hold one of them.
        """
        row = self._row(place)
        note = row.note
        folded: list[FoldedLine] = []
        for message in held:
            try:
                if line := self._line(message):
                    folded.append(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                note = note or _describe_skipped(place, message, error)
        read = row._replace(position=after, lines=row.lines + len(held), note=note)
        self._take(folded, read, f"{row.path}@{held[0].offset}", minute)

    def _line(self, message: Any) -> FoldedLine | None:  # noqa: ANN401 - the client library's
        """Return what a message says; None: it is of another index."""
        if message.topic == self._names.verdicts:
            return decode_line((message.value or b"").decode())  # `carried` is UTF-8, too
        return dead_letter_in(message) if is_of_index(message, self._names.index) else None

    def _row(self, place: TopicPartition) -> FoldedInput:
        """Return the row of a partition, whose witness is the id of the topic that it is of."""
        row = self._input(_name(place))
        return row._replace(witness=row.witness or self._layout.ids[place.topic])


async def _wait(work: Coroutine[Any, Any, _Result], seconds: float = _PATIENCE_SECONDS) -> _Result:
    """Wait for the brokers; an answer that the client does not give up is left behind."""
    task = asyncio.ensure_future(work)
    if not (await asyncio.wait({task}, timeout=seconds))[0]:
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
        raise TimeoutError
    return task.result()


def _name(place: TopicPartition) -> str:
    return f"{place.topic}/{place.partition}"


def _cause(error: Exception, since: str) -> str:
    """Return what is said of brokers that are away, or of an answer that is an error."""
    if isinstance(error, InputError):
        return f"{error} What is shown is as of {since}."
    shown = "what is shown is as of then."
    if isinstance(error, BrokerResponseError) and not error.retriable:  # it lacks a right, say
        return (
            f"The brokers have refused since {since}; {shown} They say {error!r}. See the rights "
            "of the console's user."
        )
    said: object = error
    if isinstance(error, TimeoutError):
        said = "They do not answer in time."
    elif not isinstance(error, StreamerError):
        said = f"The cause is {error!r}."
    return f"The brokers have been unreachable since {since}; {shown} {said}"


def _describe_skipped(place: TopicPartition, message: Any, error: BaseException) -> str:  # noqa: ANN401
    return (
        f"{_name(place)}: the message at offset {message.offset} is no verdict ({error}); such "
        "messages of other programs are skipped."
    )
