"""Settings of the crawl. Those of the pipeline may come from the variables that streamer reads."""

import os

BOT_NAME = "crawler"
SPIDER_MODULES = ["crawler.spider"]
ITEM_PIPELINES = {"crawler.pipeline.DropDuplicates": 300}
ROBOTSTXT_OBEY = True
DEFAULT_DROPITEM_LOG_LEVEL = "DEBUG"  # duplicates are ordinary
LOG_LEVEL = "INFO"

STREAMER_BROKERS = os.environ.get("STREAMER_BROKERS", "localhost:9092")
STREAMER_INPUT_TOPIC = os.environ.get("STREAMER_INPUT_TOPIC", "pages")
STREAMER_INDEX_NAME = os.environ.get("STREAMER_INDEX_NAME", "streamer")
