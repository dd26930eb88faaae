"""The way of a page: records in, stages, verdicts out; in one process or through Kafka."""
