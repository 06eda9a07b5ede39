"""A page as a reader without a browser sees it: tags, text, and what it takes from elsewhere."""

from html.parser import HTMLParser


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.outside = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.outside += [v for k, v in attributes if k in ("src", "href") and not v.startswith("data:")]

    def handle_data(self, data):
        self.text += data
