"""Pages and verdicts by way of Apache Kafka."""
