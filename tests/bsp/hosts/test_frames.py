"""Messages over a pipe arrive whole, whatever pieces the pipe gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bsp.hosts.frames import Reader, opening, packed

messages = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9) | st.none(), max_size=3)


@given(
    st.lists(st.tuples(messages, st.binary(max_size=40))),
    st.text(max_size=30).filter(lambda text: "\0" not in text),
    st.data(),
)
def test_in_any_pieces(sent: list[tuple[dict[str, Any], bytes]], noise: str, data: st.DataObject) -> None:
    """Text that a login prints before the first message is skipped."""
    stream = noise.encode() + opening() + b"".join(packed(message, content) for message, content in sent)
    reader, found = Reader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == sent
