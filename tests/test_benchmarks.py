"""The benchmarks run, and the plain state evolution they compare with is the theory's own."""

import dataclasses
import importlib.util
import json

import numpy as np
import pytest

from sparsetoken import Task, simulate_trajectory, theory
from sparsetoken.simulation import mean_trajectory

if importlib.util.find_spec("benchmarks") is None:
    pytest.skip("the benchmarks are not installed with the package: run from the repository", allow_module_level=True)

from benchmarks import __main__ as command
from benchmarks import measure, plain, report


def test_plain_state_evolution_agrees_with_the_theory():
    task, alpha, ridge = Task(length=6, strength=4.0, prevalence=0.4), 1.5, 0.1
    laws = [plain.attention_points(6, 1, 4.0, 0.4, 0.8, 1.5, 8, seed) for seed in range(6)]
    x = plain.solve(laws[0], alpha, ridge)
    assert np.abs(plain.residual(x, laws[0], alpha, ridge)).max() < 1e-6
    errors = [plain.test_error(plain.solve(law, alpha, ridge, x), law) for law in laws]
    ours = theory.erm(theory.attention_law(task, 0.8, 1.5), alpha, ridge)
    spread = np.hypot(np.std(errors, ddof=1) / np.sqrt(len(errors)), ours.standard_error)
    # Six scrambles: Student's t with five degrees of freedom exceeds 6.9 once in a thousand; the seeds are fixed.
    assert abs(np.mean(errors) - ours.test_error) < 6.9 * spread < 0.01


def test_plain_capacity_agrees_with_the_theory():
    law = plain.attention_points(6, 1, 4.0, 0.4, 0.8, 1.5, 12, 0)
    ours = theory.capacity(theory.attention_law(Task(length=6, strength=4.0, prevalence=0.4), 0.8, 1.5))
    assert plain.capacity(law) == pytest.approx(ours.alpha, rel=0.03)  # 2^12 points leave one per cent


def test_registry_runs_its_smallest_case_and_writes_facts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    assert command.main(["--quick", "--json", "--only", "alignment"]) == 0
    assert "full tensor" in capsys.readouterr().out
    written = json.loads((tmp_path / "alignment.json").read_text())
    assert written["quick"] and written["machine"]["cores"] >= 1 and written["machine"]["numpy"]
    row = written["rows"][0]
    assert row["ratio"] == pytest.approx(row["peer_timing"]["cpu"] / row["ours"]["cpu"])


def test_a_table_says_when_its_code_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    file = measure.keep(
        "coins", "two coins", [{"coin": "fair", "heads": 0.5}, {"coin": "bent", "heads": 0.75}], ("laws",)
    )
    page = report.expand("before\n<!-- benchmark: coins -->\nafter")
    assert "| coin | heads |" in page and "| bent | 0.75 |" in page and "Older" not in page
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | {"sources": {"laws": "another"}}))
    assert "Older than the present code of laws" in report.table("coins")
    file.write_text(json.dumps({key: value for key, value in stored.items() if key != "sources"}))
    assert "Older than the present code" in report.table("coins")
    with pytest.raises(FileNotFoundError, match="no result 'dice'"):
        report.table("dice")


def test_every_table_that_a_page_asks_for_is_there():
    pages = (measure.RESULTS.parents[1] / "docs").rglob("*.md")
    names = {name for page in pages for name in report.MARK.findall(page.read_text())}
    assert len(names) > 10 and all(report.table(name) for name in names)


def test_unknown_names_are_refused(capsys):
    assert command.main(["no-such-case"]) == 2
    assert "no benchmark 'no-such-case'" in capsys.readouterr().err


def test_every_case_is_registered_once_with_a_title():
    cases = command.load_cases()
    assert {"point", "sweep", "first", "phases", "capacity", "readout", "samplers", "alignment", "growth"} <= set(cases)
    assert all(case.title and case.name == name for name, case in cases.items())


def test_medians_and_ratios():
    timing, found = measure.timed(lambda: 3, repeats=5)
    assert found == 3 and timing.repeats == 5 and timing.wall >= 0
    row = measure.Row("work", measure.Timing(1.0, 2.0), "peer", measure.Timing(4.0, 10.0))
    head, cells = report.lines_of([row.to_dict()])
    assert row.ratio == 5.0 and cells[head.index("ratio")] == "5"
    assert measure.Row("work", measure.Timing(1.0, 2.0)).ratio is None


def test_the_backtest_of_extrapolated_curves_runs(monkeypatch):
    """On a quick learner: a case for each number of bags ahead, judged as it says, and a table."""
    from benchmarks import forecast_backtest as backtest

    monkeypatch.setattr(backtest, "TESTED", 200)
    monkeypatch.setattr(backtest, "sets", lambda: {"bags": (backtest.drawn_bags(Task(4, 1, 4.0), 10), 40)})
    cases = json.loads(json.dumps(list(backtest.cases(["PooledClassifier(ridge=0.1)"], 1))))  # as they are kept
    assert [case["n"] for case in cases] == [80, 160] and cases[0]["curve"]["n"] == 40
    rows = [backtest.judged(case) for case in cases]
    assert all(row["holds"] == (row["low"] <= row["truth"] <= row["high"]) and not row["chosen"] for row in rows)
    assert backtest.summary(rows).splitlines()[2].startswith("| PooledClassifier(ridge=0.1) | confirmation | 2 | ")
    assert list(backtest.cases(["PooledClassifier"], 1, only=["no such set"])) == []
    monkeypatch.undo()
    assert set(backtest.CHOSEN_ON) < set(backtest.sets())


def test_bags_of_the_backtest_are_what_they_say():
    """Most of the rows decide where they should, and one witness does where it should."""
    from benchmarks import forecast_backtest as backtest

    def table(return_X_y):
        return np.arange(10.0)[:, None], np.arange(10)

    bags, positive = backtest.majority_bags(table, lambda label: label % 2 == 1, 5)(40, 0)
    odd = (bags.tokens[:, 0].reshape(40, 5) % 2).sum(1)
    assert np.array_equal(positive, odd >= 3)
    bags, positive = backtest.witness_bags(table, 7, 3)(40, 0)
    assert np.array_equal((bags.tokens[:, 0].reshape(40, 3) == 7).any(1), positive)


def test_hard_points_are_within_their_bounds_and_judged():
    from benchmarks import hard_points

    drawn = hard_points.points(60, 3)
    assert drawn == hard_points.points(60, 3) != hard_points.points(60, 4)
    assert {point["loss"] for point in drawn} == set(hard_points.LOSSES)
    assert all(1 <= point["sparsity"] <= point["length"] <= 10_000 for point in drawn)
    assert max(point["sparsity"] for point in drawn) > 1000
    easy = drawn[0] | {"length": 5, "sparsity": 2, "ridge": 0.1, "loss": "square"}
    row = hard_points.solved(easy)
    assert row["met"] and row["standard_error"] <= 0.4 * 2e-4 and row["peak_megabytes"] > 10
    failed = hard_points.solved(easy | {"ridge": -1.0})
    assert not failed["met"] and "ridge" in failed["failure"]


@pytest.mark.parametrize("vectorized", [False, True])
def test_plain_closed_form_of_the_square_loss_is_the_theorys(vectorized):
    from benchmarks import plain_square

    peer = plain_square.exact_readout(8, 2, 3.0, 0.3, 1.7, 0.02, vectorized)
    law = theory.vectorized_law if vectorized else theory.pooled_law
    ours = theory.erm(law(Task(8, 2, 3.0, 0.3)), 1.7, 0.02, "square")
    for name in ("test_error", "train_loss", "norm_w", "bias"):
        assert getattr(peer, name) == pytest.approx(getattr(ours, name), rel=1e-8), name


def test_plain_square_loss_on_drawn_attention_agrees_with_the_theory():
    from benchmarks import plain_square

    laws = [plain.attention_points(6, 1, 4.0, 0.4, 0.8, 1.5, 11, seed) for seed in range(6)]
    errors = [plain_square.square_readout(law, 1.5, 0.1).test_error for law in laws]
    ours = theory.erm(theory.attention_law(Task(6, 1, 4.0, 0.4), 0.8, 1.5), 1.5, 0.1, "square")
    spread = np.hypot(np.std(errors, ddof=1) / np.sqrt(len(errors)), ours.standard_error)
    assert abs(np.mean(errors) - ours.test_error) < 6.9 * spread < 1e-3


def test_plain_bayes_limits_agree_with_the_theory():
    from benchmarks import plain_bayes

    exact, ours = plain_bayes.bayes_limit(2, 1, 2.0, 0.3, 1.5), theory.bayes_limit(Task(2, 1, 2.0, 0.3), 1.5)
    assert exact.test_error == pytest.approx(ours.test_error, abs=5e-6)
    assert exact.overlap == pytest.approx(ours.overlap, rel=1e-7) == exact.reachable_overlap
    for given in ((3, 2, 1.5, 0.4), (5, 1, 2.0, 0.5)):
        found = [plain_bayes.bayes_limit(*given, 1.0, 10, seed) for seed in range(6)]
        ours = theory.bayes_limit(Task(*given), 1.0)
        for name in ("test_error", "overlap"):
            values = [getattr(one, name) for one in found]
            spread = np.hypot(np.std(values, ddof=1) / np.sqrt(len(values)), ours.errors[name])
            assert abs(np.mean(values) - getattr(ours, name)) < 6.9 * spread < 5e-3, (given, name)


def test_peers_are_timed_at_our_standard_error():
    """A peer whose error is known: the fewest points that reach ours, alone and as a mean of scrambles."""
    from benchmarks import closed_forms

    def peer(log2: int, seed: int) -> float:
        return np.random.default_rng(seed).standard_normal() / 2**log2

    scatter = np.std([peer(0, seed) for seed in range(1, 9)], ddof=1)
    mean, alone = closed_forms.rivals(peer, scatter / 2**10, 15)
    assert "8 scrambles of 2^9" in mean.name and "2^10 Sobol, one run" in alone.name and alone.factor == 1.0
    short = closed_forms.rivals(peer, scatter / 2**10, 9)[1]
    assert short.factor == pytest.approx(2.0) and len(mean.run()) == 2


def test_z_scores_are_about_one_for_equal_laws_and_large_otherwise():
    """Two sets of runs of the same training against each other; then with another bias."""
    from benchmarks import training_measured

    stage, start = training_measured.six_steps("pooled", 1.0)
    runs = [simulate_trajectory(Task(4), "pooled", stage, 20, seed, start=start) for seed in range(24)]
    mean = mean_trajectory(runs[:12])
    scores = training_measured.z_scores(mean, runs[12:])
    assert scores.shape == (6 * 4,)  # of every step: overlap, squared norm, loss and bias
    assert 0.3 < np.sqrt(np.mean(scores**2)) < 2.5
    moved = dataclasses.replace(mean, bias=mean.bias + 10 * np.max(mean.errors["bias"]))
    assert np.sqrt(np.mean(training_measured.z_scores(moved, runs[12:]) ** 2)) > 3


def test_what_a_command_prints_is_shown_as_text(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert command.main(["--quick", "--json", "plan_printed"]) == 0
    assert "159 test bags" in capsys.readouterr().out
    page = report.expand("<!-- benchmark: plan_printed -->")
    assert "```text\n159 test bags" in page and "commit" in page
