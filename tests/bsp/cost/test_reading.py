"""A trace is read whole or refused in one line; what is refused is what the schema refuses."""

from __future__ import annotations

import copy
import json
import random
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_traces import MADE, made

from bsp.cost.record import reading
from bsp.cost.record.reading import Parts, load, parts
from bsp.errors import TraceError

SCHEMA = json.loads(resources.files("bsp.cost.record").joinpath("trace.schema.json").read_text(encoding="utf-8"))


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """What `load` says of a file with `text`, after the file's name; it is one line."""
    file = tmp_path / "t.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TraceError) as refused:
        load(file)
    said = str(refused.value)
    assert said.startswith(f"{file}: ") and "\n" not in said
    return said.removeprefix(f"{file}: ")


def changed(*path: Any, to: Any) -> str:
    """A good trace as JSON, but for the value at `path`."""
    trace = made()
    inner: Any = trace
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return json.dumps(trace)


@pytest.mark.parametrize("name", MADE)
def test_the_made_traces_hold_to_the_schema(name: str) -> None:
    jsonschema.validate(MADE[name](), SCHEMA)


@pytest.mark.parametrize("name", MADE)
def test_what_was_written_is_read(name: str, tmp_path: Path) -> None:
    trace = MADE[name]()
    (tmp_path / "t.json").write_text(json.dumps(trace), encoding="utf-8")
    assert load(tmp_path / "t.json") == trace
    assert load(str(tmp_path / "t.json")) == trace


# ------------------------------------------------------------------------------ no trace at all

AGAIN = "write it again with `bsprun --trace FILE`"
WRITES = "`bsprun --trace FILE` writes one"


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        load(tmp_path / "none.json")
    assert str(refused.value) == f"{tmp_path / 'none.json'}: no such file; {WRITES}"
    with pytest.raises(TraceError) as refused:
        load(tmp_path)
    assert str(refused.value) == f"{tmp_path}: is a folder; name the trace file in it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"is empty; {AGAIN}"),
        (" \n", f"is empty; {AGAIN}"),
        ("p,g,L\n1,2,3\n", f"is no JSON, so no trace; {WRITES}"),
        ("<html></html>", f"is no JSON, so no trace; {WRITES}"),
        (b"\x80\xff\x00", f"is no text, so no trace; {WRITES}"),
        ("[" * 100_000, f"is no JSON, so no trace; {WRITES}"),
        (
            '{"format": "bsp-trace", "version" 1}',
            f"is damaged JSON: Expecting ':' delimiter in line 1, column 35; {AGAIN}",
        ),
        ("[1, 2]", f"is JSON, but no bsp-trace; {WRITES}"),
        (
            '{"traceEvents": []}',
            "is a trace for Perfetto's viewer; leave out --trace-format perfetto for one that bsp reads",
        ),
        (
            '{"format": "bsp-sweep"}',
            "is a series of predictions; `bsprun -p P --predict --json` writes one, which a page shows",
        ),
        ('{"format": ["bsp-trace"]}', f"is JSON, but no bsp-trace; {WRITES}"),
        ('{"format": "bsp-trace"}', f"is version null of bsp-trace, this bsp reads version 1; {AGAIN}"),
        (
            '{"format": "bsp-trace", "version": true}',
            f"is version true of bsp-trace, this bsp reads version 1; {AGAIN}",
        ),
        (
            '{"format": "bsp-trace", "version": 2, "bsp": "9.1"}',
            f"is version 2 of bsp-trace (written by bsp 9.1), this bsp reads version 1; {AGAIN}",
        ),
        (changed("seconds", to=float("nan")), f"holds NaN, which is no JSON; {AGAIN}"),
    ],
)
def test_what_is_no_trace_is_refused_with_what_to_do(text: str | bytes, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said


def test_wherever_a_file_is_cut_it_is_said_to_be_cut(tmp_path: Path) -> None:
    text = json.dumps(made(supersteps=2, p=2))
    for length in range(1, len(text), 7):
        assert refusal(tmp_path, text[:length]) == f"is cut short after {length} characters; {AGAIN}"


# ------------------------------------------------------------------------------ not this schema


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed("kind", to="guess"), 'kind is "guess", none of trace, prediction'),
        (changed("processes", to=0), "processes is 0, less than 1"),
        (changed("words", to="many"), 'words is "many", not an integer'),
        (changed("words", to=1.5), "words is 1.5, not an integer"),
        (changed("machine", "r", to=True), "machine.r is true, not a number"),
        (changed("program", 1, to=7), "program[1] is 7, not a string"),
        (changed("per_superstep", 3, "label", to=7), "per_superstep[3].label is 7, not a string or null"),
        (changed("choices", 0, "priced", "tree-2", to=[]), "choices[0].priced.tree-2 is [], not a number"),
        (changed("notes", to="x" * 99), f'notes is "{"x" * 36}..., not a list'),
        (changed("per_superstep", to=[]), "per_superstep has 0 rows for 10 supersteps"),
        (changed("per_process", "sent", to=[1]), "per_process.sent has 1 entries for 4 processes"),
        (changed("traffic", "bins", to=9), "traffic.bins is 9 for 4 processes"),
        (changed("traffic", "words", 2, to=[0]), "traffic.words is not 4 x 4"),
        (changed("per_superstep", 0, "choice", to=5), "per_superstep[0].choice is 5, choices has 2 entries"),
    ],
)
def test_a_fault_is_told_with_its_place_and_value(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == f"{said}; {AGAIN}"


def test_every_required_key_is_required(tmp_path: Path) -> None:
    places: list[tuple[str, dict[str, Any], list[Any]]] = [("the trace", SCHEMA, [])]
    places += [(key, SCHEMA["properties"][key], [key]) for key in ("machine", "end", "per_process", "traffic")]
    places += [(key, SCHEMA["properties"][key], [key]) for key in ("costings", "classical")]
    for key in ("per_superstep", "per_element", "choices"):
        places.append((f"{key}[1]", SCHEMA["properties"][key]["items"], [key, 1]))
    for name, schema, path in places:
        for key in schema["required"]:
            if path or key not in ("format", "version"):
                trace = inner = made()
                for step in path:
                    inner = inner[step]
                del inner[key]
                assert refusal(tmp_path, json.dumps(trace)) == f"{name} lacks '{key}'; {AGAIN}"


def test_keys_may_be_added_within_a_version(tmp_path: Path) -> None:
    trace = made()
    trace["later"] = trace["machine"]["later"] = trace["per_superstep"][0]["later"] = {"any": "thing"}
    (tmp_path / "t.json").write_text(json.dumps(trace), encoding="utf-8")
    assert load(tmp_path / "t.json") == trace


def test_the_schema_uses_only_keywords_that_the_reader_checks() -> None:
    def keywords(schema: dict[str, Any]) -> set[str]:
        found = set(schema)
        inner = list(schema.get("properties", {}).values())
        inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
        return found.union(*map(keywords, inner))

    assert keywords(SCHEMA) <= reading.KEYWORDS | reading.ANNOTATIONS


def test_the_reader_refuses_what_jsonschema_refuses() -> None:
    """One value of a good trace is removed or replaced, at random, many times: both judge alike."""
    draw = random.Random(20)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    good, refused = made(supersteps=3, p=3), 0
    for number in range(1500):
        trace = copy.deepcopy(good)
        inner: Any = trace
        while True:
            key = draw.choice(sorted(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
            if not isinstance(inner[key], dict | list) or not inner[key] or draw.random() < 0.2:
                break
            inner = inner[key]
        wrong: Any = draw.choice([None, "x", -1, 1.5, 2.0, [], [None], {}, True, 0, 10**400])
        if draw.random() < 0.25:
            del inner[key]
        else:
            inner[key] = wrong
        expected = validator.is_valid(trace)
        refused += not expected
        assert (reading._fault(trace, SCHEMA, "") is None) == expected, f"case {number}: {key} = {wrong!r}"
    assert 300 < refused < 1450  # the cases are of both kinds


# ------------------------------------------------------------------------------ parts


@pytest.mark.parametrize("name", ["10 supersteps, p = 4", "10 supersteps, p = 64"])
def test_the_parts_of_a_superstep_add_up_to_its_seconds(name: str) -> None:
    trace = MADE[name]()
    split = parts(trace)
    assert split is not None
    for row, part in zip(trace["per_superstep"], split, strict=True):
        assert sum(part) == pytest.approx(row["seconds"], rel=1e-12, abs=0)
        assert (part.wait, part.communicate) == (row["wait"], row["communicate"])


def test_no_part_is_negative_whatever_the_clocks_say() -> None:
    trace = made(supersteps=1)
    trace["per_superstep"][0] |= {"compute": 1.0, "wait": 1.5, "communicate": -1e-9}
    assert parts(trace) == [Parts(0.0, 1.0, 0.0)]


def test_a_prediction_tells_its_parts_where_each_process_has_an_element() -> None:
    trace = made(kind="prediction", p=4, elements=4)
    split = parts(trace)
    assert split is not None
    for row, part in zip(trace["per_superstep"], split, strict=True):
        assert sum(part) == pytest.approx(row["predicted"], rel=1e-12, abs=0)
        assert part.compute == pytest.approx(row["w_mean"], rel=1e-12, abs=0)
    assert parts(made(kind="prediction", p=4, elements=2)) is None


def test_a_trace_without_the_optional_keys_has_no_parts() -> None:
    trace = made()
    del trace["per_superstep"][4]["compute"]
    assert parts(trace) is None
