"""A spider that follows each link of a site and of its mirror: one item a page."""

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import HtmlResponse, Response


class SiteSpider(scrapy.Spider):
    """Crawl from the page `start` on: scrapy crawl site -a start=URL."""

    name = "site"
    allowed_domains = ("127.0.0.1", "localhost")

    def __init__(self, start: str) -> None:
        super().__init__()
        self.start_urls = [start]

    def parse(self, response: Response) -> Iterator[Any]:
        """Yield the page, and a request for each of its links."""
        if isinstance(response, HtmlResponse):
            title = response.css("title::text").get()
            yield {"url": response.url, "title": title, "html": response.text}
            yield from response.follow_all(css="a")
