"""The command line: what is printed, written and refused, once, whatever the number of processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm import __main__ as command

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
VISITS = Path(__file__).resolve().parents[4] / "examples" / "data" / "randhie.csv.gz"
ROWS = '1,0.5,north,no\n0,1.5,"south, far",yes\n3,-0.25,north,yes\n2,2,"south, far",no\n4,3,north,no\n'


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "table.csv"
    path.write_text("y,x,region,vote\n" + 6 * ROWS)
    return str(path)


def ran(capfd: pytest.CaptureFixture[str], *words: object, nprocs: int = 3) -> tuple[int, str, str]:
    """Status, stdout and stderr of the command."""

    def main(proc: bsp.Process) -> int:
        return command.main([str(word) for word in words])

    capfd.readouterr()
    try:
        statuses = bsp.run(main, nprocs=nprocs)
    except SystemExit as left:
        statuses = [int(left.code or 0)]
    (status,) = {each or 0 for each in statuses}
    return status, *capfd.readouterr()


@pytest.mark.parametrize("nprocs", [1, 3, 64])
def test_the_summary_is_printed_once(nprocs: int, table: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capfd, table, "--family", "poisson", "--target", "y", nprocs=nprocs)
    assert (status, err) == (0, "")
    command_line = f"bsp.algorithms.glm {table} --family poisson --target y"
    start = f"bsprun -p {nprocs} -m" if nprocs > 1 else "python -m"
    shown = [line for line in out.splitlines() if not line.startswith("command ")]
    assert shown == str(glm.PoissonRegression().fit(table, "y").summary()).splitlines()
    assert f"command           {start} {command_line}" in out.splitlines()


def test_options_reach_the_model(table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fit.json"
    status, *_ = ran(
        capfd, table, "--family", "poisson", "--target", "y", "--columns", "x,vote", "--alpha", "0.1",
        "--l1-ratio", "0.5", "--no-intercept", "--tol", "1e-8", "--json", path,
    )  # fmt: skip
    found = json.loads(path.read_text())
    known = glm.PoissonRegression(0.1, 0.5, fit_intercept=False, tol=1e-8).fit(
        glm.read_table(table, columns=["x", "vote", "y"]), "y"
    )
    assert status == 0
    assert [each["name"] for each in found["coefficients"]] == ["x", "vote[yes]"]
    np.testing.assert_allclose([each["estimate"] for each in found["coefficients"]], known.coef_, rtol=0, atol=1e-7)


def test_a_text_target_of_two_levels_is_coded_and_said(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--columns", "region", "--reference", "region=south, far")
    status, out, _ = ran(capfd, table, "--family", "logistic", "--target", "vote", *words)
    assert status == 0
    assert "note: vote is 1 for 'yes', 0 for 'no'" in out
    assert "region[north]" in out


def test_json_to_the_standard_output_is_all_there_is(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capfd, table, "--target", "y", "--exclude", "region", "--robust", "--json", "-")
    found = json.loads(out)
    assert (found["family"], found["robust"], found["n_rows"]) == ("gaussian", True, 30)


def test_progress_is_a_line_for_each_point_on_stderr(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, err = ran(capfd, table, "--family", "poisson", "--target", "y", "--progress")
    lines = err.splitlines()
    assert [int(line.split()[1]) for line in lines] == list(range(len(lines)))
    assert f"{len(lines) - 1} iterations" in out


def test_a_fit_that_does_not_converge_is_status_1(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capfd, table, "--family", "poisson", "--target", "y", "--max-iter", "1")
    assert status == 1
    assert "not converged" in out


MISTAKES = {
    "--target yy": "--target yy: there is no column 'yy'; did you mean 'y'?",
    "--target y --weights ww": "--weights ww: there is no column 'ww'",
    "--target y --exclude regin": "there is no column 'regin'; did you mean 'region'?",
    "--target y --exclude y": "--exclude y: the column is needed",
    "--target y --weights y": "column 'y' is given two roles",
    "--target y --family poison": "family='poison': one of binomial, gamma, gaussian, inverse-gaussian, "
    "negative-binomial, poisson, quasi-poisson, quasi-binomial, tweedie, multinomial",
    "--target y --family tweedie:2.5": "family='tweedie:2.5': power=2.5: between 1 and 2",
    "--target y --family tweedie:1.5:logit": "family='tweedie:1.5:logit': family 'tweedie' has no link 'logit': one of",
    "--target y --family poisson:3:log": "family='poisson:3:log': poisson[:log|identity]",
    "--target y --family binomial": "y is 3; in a binomial model it must be",
    "--target region --family poisson": "region has texts; a poisson model needs numbers",
    "--target region": "a gaussian model needs numbers. For two classes: LogisticRegression, or --family logistic",
    "--target region --family logistic --reference region=far": "only columns that explain take a reference level",
    "--target y --offset region": "offset has texts; it needs numbers",
    "--target y --reference region": "--reference region: COLUMN=TEXT",
    "--target y --reference region=west": "column 'region' has no 'west'; it has north, south, far",
    "--target y --reference x=1": "column 'x' has numbers, it has no reference level",
    "--target y --alpha much": "argument --alpha: invalid float value: 'much'",
    "--target y --alpha -1": "alpha=-1.0: a number, 0 or more",
    "--target y --delimiter ,,": "table.csv: delimiter=',,': one character, not a quote",
    "--target y --decimal -": "table.csv: decimal='-': '.' or ','",
    "--target y --categorical regin": "categorical='regin': there is no column 'regin'; did you mean 'region'?",
    "--target y --missing keep": "argument --missing: invalid choice: 'keep'",
    "--target y --report /nowhere/fit.html": "/nowhere/fit.html: there is no folder '/nowhere'",
    "--family poisson": "one of the arguments --target --formula is required",
    "--formula y~xx": "there is no column 'xx'",
    "--formula y": "--formula 'y': a formula is 'response ~ terms'",
    "--formula y~x --target y": "argument --target: not allowed with argument --formula",
    "--formula y~x --columns x": "--formula and --columns: the formula names the columns",
    "--target y --columns ,": "--columns ',': it names no column",
    "--target y --absorb regin": "there is no column 'regin'; did you mean 'region'?",
    "--target y --family gamma --absorb region": "absorb= is of linear models",
    "--target y --fam poisson": "unrecognized arguments: --fam poisson",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(words: str, table: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capfd, table, *words.split())
    assert (status, out) == (2, "")
    assert err.startswith("bsp.algorithms.glm: error: ")
    assert MISTAKES[words] in err
    assert err.count("\n") == 1


def test_a_formula_tells_what_is_explained(table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capfd, table, "--formula", "y ~ I(2 * x) + region", "--json", str(tmp_path / "fit.json"))
    assert status == 0 and "formula" in out
    found = json.loads((tmp_path / "fit.json").read_text())
    halved = {each["name"]: each["estimate"] for each in found["coefficients"]}
    known = glm.LinearRegression().fit(glm.read_table(table, columns=["x", "region", "y"]), "y")
    x = known.solution_.names.index("x")
    assert halved["I(2 * x)"] == pytest.approx(known.coef_[x] / 2, rel=1e-9)


def test_absorbed_columns_have_no_coefficients(table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "fit.html"
    status, out, _ = ran(capfd, table, "--formula", "y ~ x", "--absorb", "region", "--report", str(report))
    assert status == 0 and "effects of region are absorbed" in out
    assert "effects of region are absorbed" in report.read_text() and "intercept" not in out


def test_a_file_that_is_not_there_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    status, _, err = ran(capfd, "/nowhere/data.csv", "--target", "y")
    assert (status, err) == (2, "bsp.algorithms.glm: error: /nowhere/data.csv: No such file or directory\n")


def test_help_begins_with_examples_and_ends_with_the_statuses(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capfd, "--help")
    assert status == 0
    assert out.splitlines()[2].startswith("  bsprun -p 64 -m bsp.algorithms.glm")
    assert out.splitlines()[3].startswith("  python -m bsp.algorithms.glm")
    assert out.rstrip().splitlines()[-1].startswith("exit status: ")
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("launcher", [[BSPRUN, "-p", "64", "-n", "2"], [sys.executable]])
def test_it_runs_under_bsprun_and_under_python(launcher: list[str], tmp_path: Path) -> None:
    report = tmp_path / "fit.html"
    words = ["-m", "bsp.algorithms.glm", VISITS, "--family", "poisson", "--target", "mdvis", "--report", report]
    done = subprocess.run([*launcher, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Poisson regression of mdvis (log link), 20190 rows\n")
    assert done.stdout.count("null deviance") == 1
    text = report.read_text()
    assert [part.partition("<")[0] for part in text.split("<h2>")[1:]] == [
        "Coefficients with 95 % intervals", "Standardised coefficients", "Residuals", "Convergence",
    ]  # fmt: skip
    assert f"-m bsp.algorithms.glm {VISITS} --family poisson --target mdvis --report {report}" in text


@pytest.mark.jobs
def test_a_mistake_under_bsprun_is_one_line_and_status_2() -> None:
    words = [BSPRUN, "-p", "4", "-n", "1", "-m", "bsp.algorithms.glm", str(VISITS), "--target", "mdviz"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bsp.algorithms.glm: error: --target mdviz: there is no column 'mdviz'; did you mean")
    assert done.stderr.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.jobs
def test_training_killed_on_purpose_prints_the_same_bytes() -> None:
    script = str(VISITS.parents[1] / "nonstop_logistic.py")
    plain = subprocess.run([BSPRUN, "-p", "8", "-n", "1", script], capture_output=True, timeout=300)
    words = ["--clones", "2", "--standby", "1", "--inject", "kill:element=1,superstep=12"]
    killed = subprocess.run([BSPRUN, "-p", "8", "-n", "2", *words, script], capture_output=True, timeout=300)
    assert (plain.returncode, killed.returncode) == (0, 0)
    assert killed.stdout == plain.stdout != b""


def test_nothing_is_written_over_what_is_read(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = Path(table).read_bytes()
    status, _, said = ran(capfd, table, "--target", "y", "--exclude", "region", "--report", table)
    assert status == 2
    assert "must be different files" in said
    assert Path(table).read_bytes() == before


def test_text_that_is_not_utf8_is_refused_by_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(
        b"y,town\n" + "".join(f"{k % 3},{t}\n" for k in range(9) for t in ("Z\xfcrich", "Bern")).encode("latin-1")
    )
    status, _, said = ran(capfd, path, "--target", "y")
    assert status == 2
    assert "line 2: it is not UTF-8" in said


def test_json_is_json_where_numbers_are_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "separated.csv"
    path.write_text("y,a\n" + "".join(f"{int(k > 9)},{k}\n" for k in range(20)))
    status, out, _ = ran(capfd, path, "--target", "y", "--family", "binomial", "--json", "-")
    assert status == 1
    assert json.loads(out, parse_constant=pytest.fail)["converged"] is False


@pytest.mark.thorough
@pytest.mark.jobs
def test_training_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    example, words = str(VISITS.parents[1] / "nonstop_logistic.py"), [BSPRUN, "-p", "4", "-n", "2"]
    whole = subprocess.run([*words, example], capture_output=True, check=True, timeout=300).stdout
    slow = ["--clones", "1", "--every", "2", "--inject", "slow:element=0,factor=300,from=10,until=200"]
    out = tmp_path / "out"
    with out.open("wb") as file:
        job = subprocess.Popen([*words, *slow, "--checkpoint", str(tmp_path / "states"), example], stdout=file)
        try:
            deadline = time.monotonic() + 300
            while b"iteration  12 " not in out.read_bytes():
                assert job.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            job.send_signal(signal.SIGTERM)
            assert job.wait(60) == 75
        finally:
            job.kill()
    resume = [*words, "--clones", "1", "--resume", str(tmp_path / "states"), example]
    rest = subprocess.run(resume, capture_output=True, check=True, timeout=300).stdout
    assert out.read_bytes() + rest == whole


@pytest.fixture
def modes(tmp_path: Path) -> str:
    rng = np.random.default_rng(2)
    path, modes = tmp_path / "modes.csv", np.array(["bus", "car", "train"])
    lines = [
        f"{modes[int(each[0] + each[1] > 0) + int(each[0] > 0.5)]},{k % 7},{each[0]:.3f},{each[2]:.3f},{k % 3}"
        for k, each in enumerate(rng.normal(size=(90, 3)))
    ]
    path.write_text("\n".join(["mode,town,income,time,week", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_model_of_classes_has_its_summary_json_and_report(
    nprocs: int, modes: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page, told = tmp_path / "fit.html", tmp_path / "fit.json"
    words = ("--family", "multinomial", "--target", "mode", "--clusters", "town", "--reference", "mode=car")
    status, out, err = ran(capfd, modes, *words, "--report", page, "--json", told, nprocs=nprocs)
    assert (status, err) == (0, "")
    known = glm.MultinomialRegression("car", robust="cluster").fit(modes, "mode", clusters="town")
    shown = [line for line in out.splitlines() if not line.startswith("command ")]
    assert [line.split() for line in shown] == [line.split() for line in str(known.summary()).splitlines()]
    found = json.loads(told.read_text())
    assert found["family"] == "multinomial"
    assert [each["name"] for each in found["coefficients"]][:2] == ["bus: intercept", "bus: income"]
    np.testing.assert_allclose([each["error"] for each in found["coefficients"]],
                               np.delete(known.standard_errors_, 1, axis=0).ravel(), rtol=1e-8)  # fmt: skip
    html = page.read_text()
    assert "Multinomial logistic regression of mode" in html
    assert "<span>train: time</span>" in html and "<span>train: intercept</span>" not in html


def test_numbers_are_classes_too_and_go_with_formulas(modes: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--family", "multinomial", "--formula", "week ~ income", "--reference", "week=1")
    status, out, _ = ran(capfd, modes, *words)
    assert status == 0
    assert "note: classes are compared with '1'" in out
    assert [line.split("  ")[0] for line in out.splitlines()[2:6]] == [
        "0: intercept", "0: income", "2: intercept", "2: income",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--offset", "time"), "--offset: a model of classes has none"),
        (("--absorb", "town"), "--absorb: a model of classes has none"),
        (("--l1-ratio", "0.5"), "--l1-ratio: a model of classes has none"),
        (("--reference", "mode=plane"), "reference='plane': no row is of this class; there are 'bus', 'car', 'train'"),
        (("--solver", "coordinate"), "solver='coordinate': one of auto, newton, lbfgs"),
    ],
)
def test_what_a_model_of_classes_has_not_is_said(
    words: tuple[str, ...], says: str, modes: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capfd, modes, "--family", "multinomial", "--target", "mode", *words)
    assert (status, out) == (2, "")
    assert says in err


def test_counts_absorb_labels(modes: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--family", "poisson", "--target", "week", "--columns", "income,time", "--absorb", "town")
    status, out, err = ran(capfd, modes, *words)
    assert (status, err) == (0, "")
    assert "note: effects of town are absorbed: 7 parameters" in out
