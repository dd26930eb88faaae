"""The presets: how known producers write their pages, as one table of field mappings.

A row is what `--fields` would hold for the producer; a name that is not in a row is not in its
messages. `warc` maps what the WARC reader makes of a record: the record's own headers and, under
`http`, those of the response, all names in lower case. Norconex and others delete with a null
value: that is so in every mapping and needs no row.
"""

from __future__ import annotations

from streamer.stream.fields import DEFAULT_MAPPING, FieldMapping

_NONE: dict[str, object] = dict.fromkeys(
    ("body_base64", "content_type", "charset", "fetched_at"), ()
)

_ROWS: dict[str, dict[str, object]] = {
    "scrapy-cluster": {
        "url": ("/response_url", "/url"),
        "body": "/body",
        "base64": "try",  # sent as base64 by a setting of the producer, and not marked
        "charset": "/encoding",
        "content_type": ("/response_headers/Content-Type", "/response_headers/content-type"),
        "fetched_at": "/timestamp",
        "status": "/status_code",
    },
    "nutch": {
        "url": ("/url", "/id"),
        "body": "/content",
        "body_is": "text",  # extracted by the producer, though the type says HTML
        "body_base64": "/binaryContent",
        "content_type": "/type",
        "fetched_at": "/tstamp",
    },
    "norconex": {
        "url": ("/id", "/reference"),
        "body": "/content",
        "content_type": ("/document.contentType", "/metadata/document.contentType"),
    },
    "frontera": {
        "url": "/r/url",
        "body": (),
        "body_base64": "/r/body",
        "status": "/r/status_code",
    },
    "warc": {
        "url": "/warc-target-uri",
        "body": "/body",
        "content_type": ("/warc-identified-payload-type", "/http/content-type", "/content-type"),
        "charset": "/charset",
        "fetched_at": "/warc-date",
        "status": "/status",
    },
}

PRESETS: dict[str, FieldMapping] = {
    "page": DEFAULT_MAPPING,
    **{name: FieldMapping.model_validate({**_NONE, **row}) for name, row in _ROWS.items()},
}
