"""--check: what a newcomer would miss is named before anything fails (DESIGN section 7, the last of "join").

Every program is a file of its own, run by the real bsprun; a line that ends in `# <- mark` can be named.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from bsp.checking.names import Uses, uses

pytestmark = [pytest.mark.jobs, pytest.mark.crossed]

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
CLEAN = "bsprun: --check: no overlaps; another order of turns gives the same bytes"
REHEARSED = f"{CLEAN}, and so do processes made again at the heads of rounds\n"

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check(source, p, n)`: status, stdout and stderr of `bsprun --check`; marks in stderr are put back."""

    def checked(source: str, p: int = 3, n: int = 1, *options: str, **modules: str) -> tuple[int, str, str]:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        path = tmp_path / "solver.py"
        path.write_text("import bsp\nimport numpy as np\n" + textwrap.dedent(source))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
        done = subprocess.run(
            [BSPRUN, "-p", str(p), "-n", str(n), *options, "--check", str(path)],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, env=environment,
        )  # fmt: skip
        said = done.stderr
        for k, line in enumerate(path.read_text().splitlines(), 1):
            if "# <- " in line:
                said = re.sub(rf"solver\.py:{k}\b", f"<{line.partition('# <- ')[2]}>", said)
        return done.returncode, done.stdout, said

    return checked


# ---------------------------------------------------------------- state that is not declared

UNDECLARED = {
    "a variable that a round reads and writes": (
        """
        proc, state, beta = bsp.process(), bsp.State(total=0.0), 1.0
        for k in proc.rounds(6, state):  # <- loop
            total = proc.allreduce(beta * (proc.pid + 1))
            beta = beta / 2 + total  # <- beta
            state.total += total
        print(state.total)
        """,
        r"process 0 needs 'beta' \(<beta>\) in round \d of the loop at <loop> as the rounds before have left it, and a "
        r"process that is made again there has it as before the loop; put it into the bsp\.State that proc\.rounds "
        r"is given, and use it as state\.beta",
    ),
    "two variables inside a function": (
        """
        def solve(proc):
            state, low, high = bsp.State(), 0.0, 8.0
            for k in proc.rounds(5, state):  # <- loop
                middle = (low + high) / 2
                up = proc.allreduce(middle) < 9
                low = middle if up else low  # <- low
                high = high if up else middle  # <- high
            return state
        solve(bsp.process())
        """,
        r"process 0 needs '(low|high)' \(<\1>\)( and '(low|high)' \(<\3>\))? in round \d of the loop at <loop> .*",
    ),
    "a loop without a State": (
        """
        proc, x = bsp.process(), np.ones(3)
        for _ in proc.rounds(4):
            x += proc.allreduce(x)  # <- x
        """,
        r"process 0 needs 'x' \(<x>\) in round \d .* state\.x",
    ),
    "a list that is added to, read behind the loop": (
        """
        proc, history = bsp.process(), []
        for k in proc.rounds(4, bsp.State()):  # <- loop
            history.append(proc.allreduce(k))  # <- append
        if proc.pid == 0:
            print(history)
        """,
        r"process 0, made again (at the head of round \d|at the end) of the loop at <loop>, does something else in "
        r"superstep 4 \(its end at .*\): it has 'history' \(<append>\) as before the loop; put it into the .*",
    ),
    "an array that is changed in place": (
        """
        proc, x = bsp.process(), np.zeros(4)
        for k in proc.rounds(5, bsp.State()):
            x[k % 4] += proc.pid + k  # <- x
            proc.allreduce(x)  # <- reduce
        """,
        r"process \d, made again at the head of round \d of the loop at solver.py:\d, does something else in superstep "
        r"\d \(allreduce\(.*\) at <reduce>\): it has 'x' \(<x>\) as before the loop; .*",
    ),
    "a name of what lies inside an object of the State": (
        """
        proc, state = bsp.process(), bsp.State(x=[np.zeros(2)])
        x = state.x[0]
        for k in proc.rounds(5, state):
            x[0] += 1 + k  # <- x
            proc.allreduce(x[0])
        """,
        r"process 0, made again .*: it has 'x' \(<x>\) as before the loop; .*",
    ),
    "the loop's own variable, read behind it": (
        """
        proc = bsp.process()
        for k in proc.rounds(4, bsp.State()):  # <- loop
            proc.sync()
        print(k)
        """,
        r"process 0 reads 'k' \(<loop>\) behind the loop at <loop> as its 4 rounds have left it, .* as state\.k",
    ),
    "the loop's variable after a break": (
        """
        proc, state = bsp.process(), bsp.State(left=40.0)
        for k in proc.rounds(100, state):  # <- loop
            state.left = proc.allreduce(state.left, op="max") / 2
            if state.left < 1:
                break
        proc.allreduce(k)
        """,
        r"process 0 reads 'k' \(<loop>\) behind the loop .*",
    ),
    "a name that only some processes read behind the loop": (
        """
        proc, state = bsp.process(), bsp.State(x=1.0)
        for k in proc.rounds(4, state):  # <- loop
            loss = proc.allreduce(state.x)  # <- loss
            state.x /= 2
        if proc.pid == 0:
            print("loss", loss)
        """,
        r"process 0, made again at the end of the loop at <loop>, fails where the program did not: it has "
        r"'loss' \(<loss>\) as before the loop; [^\n]*\nbsprun: process 0 raised in superstep 4:\n(.*\n)*NameError.*",
    ),
    "a global of a function that the loop calls": (
        """
        proc, beta = bsp.process(), 1.0
        def step():
            global beta
            beta = beta / 3 + proc.allreduce(beta)
        for k in proc.rounds(5, bsp.State()):
            step()
        """,
        r"process 0, made again at the head of round \d .* does something else .*: it has 'beta' as before the .*",
    ),
    "a global of an imported module": (
        """
        import helper
        proc = bsp.process()
        for k in proc.rounds(5, bsp.State()):
            proc.allreduce(helper.step(proc.pid))
        """,
        r"process 0, made again at the head of round \d .* it has 'helper\.calls' \(solver\.py:\d\) as before .*",
    ),
    "an attribute of an object": (
        """
        class Model:
            def __init__(self):
                self.beta, self.size = 1.0, 3
            def fit(self, proc):
                for k in proc.rounds(5, bsp.State()):
                    self.beta = self.beta / 2 + proc.allreduce(self.beta)  # <- step
        model = Model()
        model.fit(bsp.process())
        """,
        r"process 0, made again at the head .* it has 'self\.beta' \(<step>\) as before the loop; .*",
    ),
    "hidden in a closure": (
        """
        def counter():
            n = 0
            def count():
                nonlocal n
                n += 1
                return n
            return count
        proc, count = bsp.process(), counter()
        for k in proc.rounds(5, bsp.State()):
            proc.allreduce(count())
        """,
        r"process 0, made again at the head of round \d .*: something that rounds change \(in a module, a closure, an "
        r"object\) is not in the bsp\.State that proc\.rounds is given",
    ),
    "a return out of the loop": (
        """
        def solve(proc):
            state = bsp.State(x=8.0)
            for k in proc.rounds(50, state):  # <- loop
                state.x = proc.allreduce(state.x, op="max") / 2
                if state.x < 1:
                    return state.x  # <- return
            raise ArithmeticError("no convergence")
        print(solve(bsp.process()))
        """,
        r"process 0, made again at the end of the loop at <loop>, fails where the program did not: the loop was left "
        r"by the return at <return>, but that process goes on behind the loop; leave it by break, with what is "
        r"returned in the bsp\.State\n(.*\n)*ArithmeticError: no convergence",
    ),
    "a second loop": (
        """
        proc, state, other, y = bsp.process(), bsp.State(x=1.0), bsp.State(), 2.0
        for k in proc.rounds(3, state):
            state.x = proc.allreduce(state.x)
        for k in proc.rounds(3, other):  # <- second
            y = proc.allreduce(y)  # <- y
        """,
        r"process 0 needs 'y' \(<y>\) in round \d of the loop at <second> .*",
    ),
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_undeclared_state_is_named(check: Check, what: str) -> None:
    source, expected = UNDECLARED[what]
    helper = "calls = {}\ndef step(pid):\n    calls[pid] = calls.get(pid, 0) + 1\n    return calls[pid]\n"
    status, _, said = check(source, helper=helper)
    assert status == 1
    assert re.fullmatch(rf"bsprun: Undeclared: {expected}\n", said), said


@pytest.mark.thorough
def test_what_cannot_be_moved_is_named(check: Check) -> None:
    source = """
        proc = bsp.process()
        for k in proc.rounds(3, bsp.State(x=1, fs=[len, lambda: 0])):  # <- loop
            proc.sync()
        """
    status, _, said = check(source)
    assert status == 1
    assert re.fullmatch(
        r"bsprun: CannotMove: state\.fs\[1\] of type function cannot be pickled, so no clone could take it over and no "
        r"checkpoint keep it \(PicklingError: .*\); keep it out of the bsp\.State, and make it from what stands there "
        r"\(<loop>, process 0, superstep \d\)\n",
        said,
    ), said


@pytest.mark.parametrize("what", ["a variable that a round reads and writes", "an array that is changed in place"])
@pytest.mark.parametrize(("p", "n"), [(1, 1), (4, 1), (4, 2), (3, 3)])
def test_undeclared_state_is_named_on_any_number_of_processes_and_elements(
    check: Check, p: int, n: int, what: str
) -> None:
    source, expected = UNDECLARED[what]
    status, _, said = check(source, p, n)
    assert status == 1
    assert re.fullmatch(rf"bsprun: Undeclared: {expected}\n", said), said


@pytest.mark.thorough
def test_the_head_is_drawn_from_the_seed(check: Check) -> None:
    source, _ = UNDECLARED["a variable that a round reads and writes"]
    assert check(source) == check(source)
    assert len({check(source.replace("6", "60"), 1, 1, "--seed", str(seed))[2] for seed in range(4)}) > 1


def test_processes_at_different_heads_are_told(check: Check) -> None:
    source = """
        proc = bsp.process()
        if proc.pid < 2:
            for k in proc.rounds(1):
                pass
        proc.sync()
        """
    assert check(source, 4, 1)[0] == 1
    status, _, said = check(source, 4, 2)
    assert status == 1
    assert said == (
        "bsprun: SyncMismatch: processes have passed different numbers of heads of proc.rounds before superstep 0 ends "
        "(element 0: 2, element 1: 0); every process stands at the head of the same round in the same superstep\n"
    )


# --------------------------------------------------------------------------- programs that are right

RIGHT = {
    "everything in the State": """
        import sys
        proc, state = bsp.process(), bsp.State(x=np.ones(3), seen=[], names={"a", "b"})
        x = proc.coarray(2)
        inner = x.local[1:]
        for k in proc.rounds(7, state):
            draw = proc.rng.random() + np.random.normal()
            x.put((proc.pid + 1) % proc.nprocs, draw, at=0)
            proc.send(0, {"draw": draw, "k": k})
            loss = proc.allreduce(state.x.sum())
            state.seen.append(loss)
            state.names.add(str(k))
            state.x = state.x / 2 + x.local[0] + sum(m.payload["draw"] for m in proc.inbox)
            inner += 1
            if proc.pid == 0:
                print(k, loss)
        state.last = state.seen[-1]
        print(proc.pid, state.x, state.last, sorted(state.names), inner, x.local)
        """,
    "a work array, a cache, a log and a lazy value": """
        from functools import lru_cache
        import time
        @lru_cache
        def square(k):
            return k * k
        proc, state, room, known, log, table = bsp.process(), bsp.State(x=1.0), np.zeros(3), {}, [], None
        began = time.perf_counter()
        for k in proc.rounds(6, state):
            if table is None:
                table = np.arange(9.0)
            if k % 2 not in known:
                known[k % 2] = square(k % 2)
            room[:] = state.x
            room += table[k]
            log.append(time.perf_counter() - began)
            began = time.perf_counter()
            state.x = proc.allreduce(room.sum() + known[k % 2])
            if proc.pid == 0:
                total = state.x
            proc.sync()
            if proc.pid == 0:
                print(total)
        """,
    "an alias of what the State holds": """
        proc, state = bsp.process(), bsp.State(x=np.zeros(2))
        x = state.x
        for k in proc.rounds(5, state):
            x[0] += 1 + k
            print(proc.allreduce(x[0]))
        """,
    "work arrays that each round fills before it adds to them": """
        proc, state = bsp.process(), bsp.State(x=1.0)
        a, b, c = np.zeros(3), np.zeros(3), np.zeros((3, 3))
        for k in proc.rounds(6, state):
            a[...] = k
            b.fill(k)
            np.outer(a, b, out=c)
            a += state.x
            b += a
            c += b
            state.x = proc.allreduce(c.sum()) / 100
            print(state.x)
        """,
    "inner loops, a break, and a loop behind it": """
        proc, state = bsp.process(), bsp.State(x=64.0, k=0)
        for k in proc.rounds(100, state):
            for j in proc.rounds(2):
                state.x = proc.allreduce(state.x, op="max") * 0.7
            state.k = k
            if state.x < 1:
                break
        print(state.k, state.x)
        other = bsp.State(y=state.x)
        for k in proc.rounds(3, other):
            other.y += proc.allreduce(other.y)
        print(other.y)
        """,
    "objects of the script's own classes": """
        class Model:
            def __init__(self):
                self.beta = 1.0
        proc, state = bsp.process(), bsp.State(model=Model())
        for k in proc.rounds(4, state):
            state.model.beta += proc.allreduce(state.model.beta)
        print(state.model.beta)
        """,
    "objects that ask which process has them, when they are pickled and when they are made again": """
        from bsp.algorithms import graphs
        class Part:
            def __init__(self, x):
                self.x, self.pid = x, bsp.process().pid
            def __getstate__(self):
                assert bsp.process().pid == self.pid
                return self.x
            def __setstate__(self, x):
                self.x, self.pid = x, bsp.process().pid
        proc, state = bsp.process(), bsp.State(part=Part(0), parts=[], graph=graphs.rmat(3), x=0.0)
        for k in proc.rounds(4, state):
            state.parts.append(Part(k))
            state.x += state.graph.start + proc.allreduce(state.part.pid + state.parts[0].pid)
            state.part.x += k
        print(state.x, state.part.x, state.part.pid, [part.pid for part in state.parts])
        """,
    "preconditioners that a round makes and the next one uses": """
        import scipy.sparse, bsp.arrays as ba
        from bsp.algorithms import krylov
        from bsp.arrays import sparse
        proc, state = bsp.process(), bsp.State(x=ba.ones(20).persist())
        A = sparse.from_scipy(scipy.sparse.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(20, 20)).tocsr())
        for k in proc.rounds(4, state):
            if k:
                state.x = (state.M @ state.x + state.M.T @ state.x + state.N @ state.x + state.I @ state.x).persist()
            state.M, state.N = krylov.jacobi(A), krylov.block_jacobi(A, exact=True)
            state.I = krylov.block_jacobi(A, drop_tol=0.1)
        print(state.x.compute())
        """,
    "clocks and randomness by proc.once": """
        import random, time
        proc, state = bsp.process(), bsp.State(x=0.0)
        seed = proc.once(random.random)
        for k in proc.rounds(3, state):
            state.x += proc.allreduce(proc.once(time.time) + seed)
            if proc.pid == 0:
                print(state.x, proc.time())
        """,
    "draws, text and exceptions of proc.once": """
        import random
        def fails():
            np.random.seed(random.randrange(100))
            raise ValueError("no")
        proc, state = bsp.process(), bsp.State(x=0.0)
        state.x += proc.once(lambda: proc.once(random.random) + proc.rng.random())
        for k in proc.rounds(4, state):
            state.x += proc.allreduce(proc.once(lambda: print("once", k) or np.random.normal()))
            try:
                proc.once(fails)
            except ValueError as error:
                state.x += len(error.args[0])
        print(state.x, np.random.normal(), random.random(), proc.rng.random())
        """,
    "no rounds, one round, loops that are not entered": """
        proc, x = bsp.process(), 1
        for k in proc.rounds(0):
            x += 1
        for k in proc.rounds(1):
            proc.sync()
        print(x)
        """,
    "coarrays made inside the loop, and a private handle": """
        proc, state = bsp.process(), bsp.State(x=1.0, room=None)
        for k in proc.rounds(5, state):
            if k == 1:
                state.room = proc.coarray(2)
                state.own = proc.private()
            proc.sync()
            if k > 1:
                state.room.put((proc.pid + 1) % proc.nprocs, state.x, at=0)
                state.own.send(0, k)
                proc.sync()
                state.own.sync()
                state.x += state.room.local[0] + len(state.own.inbox)
        print(state.x)
        """,
}


@pytest.mark.parametrize(("p", "n"), [(1, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("what", RIGHT)
def test_a_program_that_is_right_is_told_nothing(check: Check, what: str, p: int, n: int) -> None:
    status, _, said = check(RIGHT[what], p, n)
    assert (status, said) == (0, REHEARSED)


EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))
OFTEN = ("arrays_tour", "heat", "hello", "sample_sort")  # arrays, rounds, puts, collectives


@pytest.mark.parametrize("example", [
    pytest.param(path, marks=[] if path.stem in OFTEN else pytest.mark.rest, id=path.name) for path in EXAMPLES
])  # fmt: skip
def test_the_examples_are_right(example: Path) -> None:
    """Where processes are made again, on two elements; without rounds on one, where most orders of turns are tried."""
    rehearsed = re.search(r"proc\.rounds\(|graphs\.|krylov\.|glm\.", example.read_text()) is not None
    words = [BSPRUN, "-p", "4", "-n", "2" if rehearsed else "1", "--check", example]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, REHEARSED if rehearsed else f"{CLEAN}\n")


def test_the_text_is_that_of_one_run(check: Check, tmp_path: Path) -> None:
    out = check(RIGHT["everything in the State"])[1]
    plain = subprocess.run([BSPRUN, "-p", "3", "-n", "1", tmp_path / "solver.py"], capture_output=True, text=True)
    assert (out, plain.stderr) == (plain.stdout, "")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_signal_ends_it_and_is_no_mistake_of_the_program(check: Check, tmp_path: Path, count: int) -> None:
    program = f"""
        import os, signal
        passes = os.open({str(tmp_path / "passes")!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(passes, b".")
        proc, state, last = bsp.process(), bsp.State(total=0.0), os.fstat(passes).st_size == {count}
        for k in proc.rounds(3, state):
            state.total = proc.allreduce(state.total + 1.0)
        while last:
            os.kill(os.getppid(), signal.SIGTERM)
            signal.pause()
        """
    status, _, said = check(program, 1)
    assert (status, said) == (128 + signal.SIGTERM, "bsprun: ended by SIGTERM\n")
    assert (tmp_path / "passes").stat().st_size == count


def test_without_rounds_nothing_is_rehearsed(check: Check) -> None:
    assert check("proc = bsp.process()\nproc.sync()\n") == (0, "", f"{CLEAN}\n")


# --------------------------------------------------------------------------------- nondeterminism

AGAIN = r"process {} does something else in superstep {} \(<at>\) when the program runs again"
CURE = r"draw from proc\.rng, read clocks by proc\.time\(\) or proc\.once\(\.\.\.\)"
NONDETERMINISM = {
    "unseeded randomness": (
        """
        import random
        proc = bsp.process()
        proc.sync()
        jitter = random.SystemRandom().random()  # <- jitter
        proc.sync()
        proc.allreduce(jitter)  # <- at
        """,
        AGAIN.format(0, 2)
        + r", first seen in 'jitter' \(<jitter>: jitter = random\.SystemRandom\(\)\.random\(\).*\) in superstep 1: "
        rf"unseeded randomness reaches the result; {CURE}",
    ),
    "a generator without a seed, on one process": (
        """
        proc = bsp.process()
        x = np.random.default_rng().random() if proc.pid == 1 else 0.0  # <- x
        proc.send(0, x)
        proc.sync()  # <- at
        """,
        AGAIN.format(1, 0) + r", first seen in 'x' \(<x>: .*\) in superstep 0: unseeded randomness reaches .*",
    ),
    "the clock": (
        """
        import time
        def main(proc):
            began = time.time()  # <- began
            proc.allreduce(began)  # <- at
        main(bsp.process())
        """,
        AGAIN.format(0, 0) + r", first seen in 'began' \(<began>: .*\) in superstep 0: the clock reaches the .*",
    ),
    "randomness without a variable": (
        """
        import os
        proc = bsp.process()
        proc.send(0, os.urandom(8))
        proc.sync()  # <- at
        """,
        AGAIN.format(0, 0) + rf": unseeded randomness, the clock, or a file that it changes reaches the result; {CURE}",
    ),
    "the order of a set": (
        """
        proc = bsp.process()
        words = {"ant", "bee", "cat", "dog", "emu", "fox", "gnu"}
        for word in words:
            proc.send(0, word)
        proc.sync()  # <- at
        """,
        r"process 0 does something else in superstep 0 \(<at>\) when words hash otherwise \(another PYTHONHASHSEED\), "
        r"first seen in 'word' \(solver\.py:6: for word in words:\) in superstep 0: the order of a set, or a hash\(\), "
        r"reaches the result; sort the set",
    ),
}


@pytest.mark.parametrize(("p", "n"), [(2, 1), (4, 2)])
@pytest.mark.parametrize("what", NONDETERMINISM)
def test_nondeterminism_is_told_with_its_cause(check: Check, what: str, p: int, n: int) -> None:
    source, expected = NONDETERMINISM[what]
    status, _, said = check(source, p, n)
    assert status == 1
    assert re.fullmatch(rf"bsprun: Nondeterminism: {expected}\n", said), said


def test_sets_that_are_sorted_or_only_asked_are_fine(check: Check) -> None:
    source = """
        proc, words = bsp.process(), {"ant", "bee", "cat", "dog", "emu", "fox", "gnu"}
        for word in sorted(words):
            proc.send(0, word)
        proc.send(0, words)
        proc.sync()
        print("ant" in words, len(words))
        """
    assert check(source)[0::2] == (0, f"{CLEAN}\n")


# ---------------------------------------------------------------------------- which names are read


def used(tmp_path: Path, source: str) -> Uses:
    path = tmp_path / "names.py"
    path.write_text(textwrap.dedent(source))
    code = compile(path.read_text(), str(path), "exec")
    line = next(k for k, text in enumerate(path.read_text().splitlines(), 1) if "rounds" in text)
    uses.cache_clear()
    import linecache

    linecache.checkcache(str(path))
    return uses(code, line)


def test_names_of_a_loop_are_told_apart(tmp_path: Path) -> None:
    found = used(
        tmp_path,
        """
        a = b = c = d = e = f = g = 0
        for k in rounds(
            9,
        ):
            a = a + 1
            b = 1
            if k:
                d = c
            c, (e, *f) = b, (d, [x for x in range(k)])
            g.append(lambda h: h + i)
            if (n := k) > 3:
                continue
            b += 1
        else:
            print(e)
        print(k, a, sep="")
        b = 2
        print(b)
        if a:
            print(c)
        """,
    )
    assert found.sure == {"a"}  # surely read first, and assigned
    assert found.live >= {"a", "c", "d", "g", "i"}
    assert not found.live & {"b", "e", "f", "k", "x", "n", "h"}
    assert found.sure_behind == {"e", "k", "a"}
    assert found.behind >= {"e", "k", "a", "c"}
    assert "b" not in found.behind
    assert found.changes["a"] == 6
    assert found.changes["g"] == 11


def test_a_loop_inside_others_is_followed_by_their_next_turn(tmp_path: Path) -> None:
    found = used(
        tmp_path,
        """
        while x:
            print(first)
            for k in rounds(9):
                first = second = third = 1
            second = 2
            print(second)
            third = 3
        print(third, k)
        """,
    )
    assert {"first", "x", "k"} <= found.behind
    assert not {"second", "third"} & found.behind
    assert found.sure_behind == set()
