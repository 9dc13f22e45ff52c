"""What is counted: words and messages between processes, by the rules, whatever the elements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.collectives.steps import give_to_all
from bsp.cost.prediction.predict import Prediction
from bsp.cost.record import account
from bsp.cost.record.recorder import Recorder
from bsp.values.effects import effect_of

pytestmark = pytest.mark.solo


def rows(main: Any, nprocs: int, **options: Any) -> Prediction:
    return bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), **options)


def counted(main: Any, nprocs: int = 3) -> list[tuple[int, int, int]]:
    return [(row["h_sent"], row["h_received"], row["messages"]) for row in rows(main, nprocs)]


def test_a_put_counts_its_data_in_words_rounded_up_for_each_process_and_superstep() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(9, dtype=np.int32)
        proc.sync()
        if proc.pid == 0:
            x.put(1, np.arange(3), at=slice(0, 3))  # 12 bytes
            x.put(1, np.arange(2), at=slice(3, 5))  # 8 more: 20 bytes are 3 words
            x.put(2, 1, at=0)  # 4 more: process 0 sends 24 bytes, process 2 receives half a word
        proc.sync()

    assert counted(main) == [(0, 0, 0), (3, 3, 2)]


@pytest.mark.parametrize(
    "what",
    ["put", "a part", "a number", "a block", "an array for all", "numbers for all", "a message", "a get", "a sum"],
)
def test_a_record_counts_as_the_effect_that_it_stands_for(what: str) -> None:
    issued: list[Any] = []

    def main(proc: Any) -> None:
        x, y = proc.coarray((4, 5)), proc.coarray(1 << 15)
        proc.sync()
        outbox = proc._context.outbox
        match what:
            case "put":
                x.put(1, np.ones((2, 5)), at=slice(1, 3))
            case "a part":
                x.put(1, np.ones(4), at=(slice(None), 2))
            case "a number":
                y.put(1, 1.5, at=7)
            case "a block":
                y.put(1, y.local, buffered=False)
            case "a get":
                x.get(1, at=(slice(None), 2))
                y.get(2, at=7)
                y.get(0, at=slice(3, 9))
            case "a sum":
                x.put(1, np.ones(4), at=(slice(None), 2), op="add")
                y.put(2, 1.5, at=7, op="max")
            case "a message":
                proc.send(1, ["some", "thing"])
                proc.send(1, np.ones((2, 3)), tag="a tag")
            case _:
                outbox = proc._task.contexts[1].outbox
                give_to_all(
                    proc._task.contexts[1], proc.pid, 1, 3, np.ones(3) if "array" in what else b"123", lent=False
                )
        issued.extend(outbox.take())

    bsp.run(main, nprocs=3)
    assert issued
    assert all(type(record) is tuple for record in issued)
    found = []
    for counting, effects in ((Recorder.packed, issued), (Recorder.issued, [effect_of(record) for record in issued])):
        recorder = Recorder(3, 3, range(3), bsp.Machine(p=3))
        counting(recorder, effects)
        found.append((recorder._single, recorder._multi))
    assert found[0] == found[1]
    assert any(found[0])


def test_traffic_to_oneself_is_not_counted() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(4)
        x.put(proc.pid, np.ones(4))
        x.get(proc.pid)
        x.put_each(proc.pid, [0, 1], [1.0, 2.0])
        proc.send(proc.pid, np.ones(9))
        proc.sync()

    assert counted(main) == [(0, 0, 0)]


def test_a_get_counts_its_data_from_the_owner_to_the_reader() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(10)
        proc.sync()
        if proc.pid == 2:
            x.get(0)
            x.get(1, slice(0, 4))
        proc.sync()

    found = rows(main, 3)
    assert found.record["per_process"]["sent"] == [10, 4, 0]
    assert found.record["per_process"]["received"] == [0, 0, 14]
    assert found.messages == 2


def test_put_each_counts_two_words_an_item_and_get_each_one_each_way() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(10, dtype=np.float32)
        proc.sync()
        if proc.pid == 0:
            x.put_each([1, 1, 2], [0, 5, 3], [1.0, 2.0, 3.0])
        proc.sync()
        if proc.pid == 0:
            x.get_each([1, 1, 2], [0, 5, 3])
        proc.sync()

    found = rows(main, 3)
    assert [(row["h_sent"], row["h_received"], row["messages"]) for row in found[1:]] == [(6, 4, 2), (3, 3, 4)]


def test_scalar_puts_count_their_data_not_their_positions() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(10)
        proc.sync()
        for k in range(5):
            x.put((proc.pid + 1) % proc.nprocs, float(k), at=k)
        proc.sync()

    assert counted(main)[1] == (5, 5, 3)


def test_a_pickled_object_counts_its_length_and_an_empty_message_is_a_message() -> None:
    import pickle

    payload = {"a": list(range(100))}

    def main(proc: bsp.Process) -> None:
        if proc.pid == 0:
            proc.send(1, payload)
            proc.send(2, np.empty(0))
        proc.sync()

    words = -(-len(pickle.dumps(payload, 5)) // 8)
    assert counted(main) == [(words, words, 2)]


def test_collectives_count_their_inner_supersteps() -> None:
    def main(proc: bsp.Process) -> None:
        proc.allreduce(np.ones(6), algorithm="two-phase")
        proc.broadcast(np.ones(5) if proc.pid == 0 else None, algorithm="one-phase")

    found = rows(main, 3)
    assert [(row["h_sent"], row["messages"]) for row in found] == [(4, 6), (4, 6), (10, 2)]
    assert [row["call"] for row in found] == ["allreduce(float64[6], op='add')"] * 2 + ["broadcast(root=0)"]
    assert [row["choice"] for row in found] == [0, 0, 1]
    assert [choice["chosen"] for choice in found.record["choices"]] == ["two-phase", "one-phase"]
    assert all(choice["forced"] for choice in found.record["choices"])


def test_labels_and_source_lines_name_the_superstep() -> None:
    def main(proc: bsp.Process) -> None:
        proc.sync(label="first")
        proc.sync()

    first = main.__code__.co_firstlineno + 1
    found = rows(main, 4)
    assert [(row["label"], row["call"], row["source"]) for row in found] == [
        ("first", "sync", f"test_recorder.py:{first}"),
        (None, "sync", f"test_recorder.py:{first + 1}"),
    ]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 30)), max_size=12), st.integers(1, 5))
@examples(40)
def test_counts_are_those_of_a_plain_count_and_do_not_know_elements(
    puts: list[tuple[int, int, int]], elements: int
) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(30, dtype=np.int16)
        for source, dest, size in puts:
            if source == proc.pid:
                x.put(dest, np.ones(size, np.int16), at=slice(0, size))
        proc.sync()

    sent, received, pairs = [0] * 5, [0] * 5, set()
    for source, dest, size in puts:
        if source != dest and size:
            sent[source] += 2 * size
            received[dest] += 2 * size
            pairs.add((source, dest))
    found = bsp.predict(main, nprocs=5, elements=elements, machine=bsp.Machine(p=5))
    (row,) = found
    assert (row["h_sent"], row["h_received"]) == (max(-(-b // 8) for b in sent), max(-(-b // 8) for b in received))
    assert row["messages"] == len(pairs)
    assert found.record["per_process"]["sent"] == [-(-b // 8) for b in sent]


def test_long_runs_are_folded_on_the_way_and_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(4)
        for k in range(100):
            x.put((proc.pid + 1) % proc.nprocs, np.ones(k % 5), at=slice(0, k % 5))
            proc.sync()

    whole = rows(main, 3)
    monkeypatch.setattr("bsp.cost.record.recorder._CHUNK", 3 * 16)
    pieces = rows(main, 3)
    for name in ("h_sent", "h_received", "messages", "superstep", "source"):
        assert [row[name] for row in pieces] == [row[name] for row in whole]
    assert pieces.record["per_process"]["sent"] == whole.record["per_process"]["sent"] == [200] * 3
    assert pieces.record["traffic"] == whole.record["traffic"]


def test_a_record_is_what_its_schema_says() -> None:
    schema = json.loads((Path(account.__file__).parent / "trace.schema.json").read_text())

    def main(proc: bsp.Process) -> None:
        proc.allreduce(proc.pid)
        proc.sync(label="last")

    for nprocs in (1, 3):
        jsonschema.validate(rows(main, nprocs).record, schema)
    jsonschema.validate(rows(lambda proc: None, 2).record, schema)
