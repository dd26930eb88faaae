"""The worker's log: one line an event on standard error, for our events and the libraries'.

Everything goes through the standard library's root logger, and one formatter renders it, as JSON or
for people. Ours are shown from the chosen level on. The libraries report ordinary events at INFO,
several lines for each rebalance and commit, so only their warnings are shown, and repeats of a line
only now and then. Tracebacks are rendered without the values of local variables, which hold pages
and passwords.

Use: `log = structlog.get_logger()` in a module, then `log.info("an event", shard=0)`.
"""

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable

import structlog
from aiokafka import errors as kafka_errors
from structlog.typing import EventDict, Processor

from streamer.errors import mask

REPEAT_SECONDS = 30.0
_LINES_KNOWN_MAX = 256

# What a client says while a new cluster makes its own topics, and while ours spread among the
# brokers. Each is tried again until it succeeds; what goes on for longer is shown.
STARTING_SECONDS = 30.0
_STARTING = {
    "Group Coordinator Request failed: %s",
    "Marking the coordinator dead (node %s)for group %s.",
    "Topic %s not found in cluster metadata",
    "Topic %s is not available during auto-create initialization",
    "Got error produce response on topic-partition %s, retrying. Error: %s",
}
_STARTING_ERRORS = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.LeaderNotAvailableError,
    kafka_errors.NotCoordinatorForGroupError,
    kafka_errors.NotLeaderForPartitionError,
    kafka_errors.UnknownTopicOrPartitionError,
)

# The client's way of noticing a rebalance: it rejoins at once, and so it is at every rebalance.
_ORDINARY = {"Heartbeat failed for group %s because it is rebalancing"}


class LibraryFilter(logging.Filter):
    """Drop what libraries say at WARNING and is ordinary, and what they just said.

    Without its brokers the Kafka client writes four lines ten times a second for as long as that
    lasts. Here a line comes once in REPEAT_SECONDS, with the number left out as `repeated`. What
    passes by itself at a start is left out for STARTING_SECONDS from the first such line on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._shown: dict[tuple[str, str], tuple[float, int]] = {}  # when, left out since
        self._starting_since: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is shown."""
        if record.name.partition(".")[0] == "streamer":
            return True
        if str(record.msg) in _ORDINARY:
            return False
        try:
            line = record.name, record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit: the handler reports them
            return True
        now = self._clock()
        if _passes_at_a_start(record):
            if self._starting_since is None:
                self._starting_since = now
            if now - self._starting_since < STARTING_SECONDS:
                return False
        shown, left_out = self._shown.get(line, (-REPEAT_SECONDS, 0))
        if now - shown < REPEAT_SECONDS:
            self._shown[line] = (shown, left_out + 1)
            return False
        if left_out:
            record.repeated = left_out
        if len(self._shown) >= _LINES_KNOWN_MAX:
            self._shown.clear()  # lines that are never the same again, or very many of them
        self._shown[line] = (now, 0)
        return True


def _passes_at_a_start(record: logging.LogRecord) -> bool:
    """Return whether a line is one of those that are ordinary while a cluster is new."""
    if str(record.msg) not in _STARTING:
        return False
    kinds = [each if isinstance(each, type) else type(each) for each in record.args or ()]
    errors = [kind for kind in kinds if issubclass(kind, BaseException)]
    return all(issubclass(kind, _STARTING_ERRORS) for kind in errors)


def _sentence(
    message: Warning | str, category: type[Warning], *_place: object, **_more: object
) -> str:
    """Return what a warning says; our own ones need no name."""
    return str(message) if category is UserWarning else f"{category.__name__}: {message}"


def configure_logs(log_format: str, level: str) -> None:
    """Send all logs of the process to standard error, instead of wherever they went."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LibraryFilter())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(["repeated"])],
            processors=_choose_rendering(log_format),
        )
    )
    own = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=max(own, logging.WARNING), force=True)
    logging.getLogger("streamer").setLevel(own)
    # Faust names its lines by the modules of our classes.
    logging.getLogger("streamer.kafka.faust_chunks").setLevel(max(own, logging.WARNING))
    logging.captureWarnings(True)
    warnings.formatwarning = _sentence
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def log_uncaught() -> None:
    """Send what Python prints of exceptions that nothing catches to the log; for a whole process.

    One is of each thread of the Kafka client that is stopped while its brokers are away.
    """
    log = structlog.get_logger()

    def in_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_type is not SystemExit:
            name = failure.thread.name if failure.thread else ""
            log.error("thread_failed", thread=name, exc_info=failure.exc_value)

    def unraisable(failure: "sys.UnraisableHookArgs") -> None:
        log.error("not_cleaned_up", object=repr(failure.object), exc_info=failure.exc_value)

    threading.excepthook, sys.unraisablehook = in_thread, unraisable


def _mask_secrets(_log: object, _method: str, event: EventDict) -> EventDict:
    """Return an event without what URLs in it may not show."""
    return {key: mask(value) if isinstance(value, str) else value for key, value in event.items()}


def _choose_rendering(log_format: str) -> list[Processor]:
    """Return the steps from an event to its line."""
    if log_format == "json":
        return [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _mask_secrets,
            _main_keys_first,
            structlog.processors.JSONRenderer(),
        ]
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        _mask_secrets,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            timestamp_key="time",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _main_keys_first(_log: object, _method: str, event: EventDict) -> EventDict:
    main = {key: event.pop(key) for key in ("time", "level", "event")}
    return main | dict(event)
