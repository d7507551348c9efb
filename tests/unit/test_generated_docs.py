"""The pages that are made from the code say what the code says."""

import pytest

from scripts.generate_docs import DOCS, PAGES
from scripts.messages import messages


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    current = (DOCS / name).read_text() == PAGES[name]()
    assert current, "run: python -m scripts.generate_docs"


def test_every_kind_of_message_is_found() -> None:
    errors, denials = messages()
    assert {"refused", "not-found", "untrusted-file", "busy", "storage"} <= {
        message.code for message in errors
    }
    assert {"device-not-granted", "bind-hardware", "extra-capability"} <= {
        message.code for message in denials
    }
    assert all(message.text for message in (*errors, *denials))
