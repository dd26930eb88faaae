"""Pages and verdicts over Apache Kafka."""
