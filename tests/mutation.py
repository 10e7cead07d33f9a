"""Break the core on purpose, one line at a time, and see whether the tests notice.

    python -m tests.mutation                               all mutants, two at a time
    python -m tests.mutation --workers 16 --out found.txt  sixteen at a time, with the verdicts in a file as well
    python -m tests.mutation equations                     those of one module
    python -m tests.mutation --list                        what would be changed

A mutant is a copy of the package in a temporary folder with one piece of text exchanged (a sign flipped, a term dropped); the
test named beside it, a quick one of those that notice, must fail there. A mutant that survives shows a test without teeth; one
whose text is no longer found has to be rewritten with the code it was about. Tests that fail without any change would notice
everything, so all of them are run on the package as it is first, in one process; mutants of those that fail there are not
tried.

All of them take a minute or two with two workers on two quiet cores. Processes are forked from one that has imported what
no mutant changes, and share what JAX compiles.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600  # a mutant that makes a solver wander counts as noticed


class Mutant(NamedTuple):
    """One change of one file, and a quick test that notices it."""

    file: str
    text: str
    changed: str
    test: str

    @property
    def title(self) -> str:
        return f"{self.file}: {' '.join(self.text.split())} -> {' '.join(self.changed.split())}"


MUTANTS = [
    Mutant(
        "laws/law.py",
        'k = parameters["sharpness"] if sharpness is None else sharpness',
        'k = parameters["sharpness"]',
        "tests/theory/test_deployment.py::test_a_law_elsewhere_is_the_law_made_there",
    ),
    Mutant(
        "laws/heads.py",
        "self.queries if same else sharpness / self.sharpness * self.queries",
        "self.queries",
        "tests/theory/test_deployment.py::test_a_law_elsewhere_is_the_law_made_there",
    ),
    Mutant(
        "laws/coloured.py",
        "self.beta if sharpness is None else sharpness / (self.query.norm or 1.0)",
        "self.beta",
        "tests/theory/test_deployment.py::test_a_law_elsewhere_is_the_law_made_there",
    ),
    Mutant(
        "simulation/two_steps.py",
        "h = training.loss_function.slope(fields + b1, y)",
        "h = training.loss_function.slope(fields, y)",
        "tests/simulation/test_steps.py::test_steps_are_gradients[logistic]",
    ),
    Mutant(
        "simulation/trajectory.py",
        'object.__setattr__(self, "seed", seed)',
        "pass",
        "tests/simulation/test_trajectory.py::test_whole_numbers_of_any_type_are_the_same_run",
    ),
    Mutant(
        "solvers/erm.py",
        "np.column_stack([features / scale, np.ones(len(labels))])",
        "np.column_stack([features / scale, np.zeros(len(labels))])",
        "tests/study/test_kinds.py::test_separability_agrees_with_a_linear_program",
    ),
    Mutant(
        "solvers/erm.py",
        ".min()) > 1e-12",
        ".min()) > 1e-3",
        "tests/study/test_kinds.py::test_separability_is_scale_free_and_sees_tiny_margins",
    ),
    Mutant(
        "study/kinds/dynamics.py",
        "recovery(task, self.alpha, value).cosine",
        "recovery(task, 2 * self.alpha, value).cosine",
        "tests/study/test_kinds.py::test_a_start_may_name_how_its_cosine_is_learnt",
    ),
    Mutant(
        "paper/catalogue/self_attention.py",
        "pairs: list[Any] = [(random[n].scaled(LEFT), spectral[n]) for n in spectral]",
        "pairs: list[Any] = [(spectral[n], random[n].scaled(LEFT)) for n in spectral]",
        "tests/paper/test_open_questions.py::test_self_attention",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "(ridge * m_q + pull_T + m_q * inside) / D",
        "(ridge * m_q - pull_T + m_q * inside) / D",
        "tests/theory/test_golden.py::test_reference_value[10-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "(m_u / (alpha * V) + pull_S) / D",
        "(m_u / alpha + pull_S) / D",
        "tests/theory/test_golden.py::test_reference_value[14-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "alpha * V * (ridge + bend) - 1.0",
        "alpha * V * bend - 1.0",
        "tests/theory/test_golden.py::test_reference_value[10-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "2.0 * log_nu - jnp.log(alpha * square) - 2.0 * log_V",
        "2.0 * log_nu - jnp.log(square) - 2.0 * log_V",
        "tests/theory/test_golden.py::test_reference_value[10-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/prox_averages.py",
        "[first * A, bend * K, third * K, value[None]]",
        "[first * A, bend * K, third * jnp.sqrt(K), value[None]]",
        "tests/theory/test_golden.py::test_reference_value[10-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "pull_T + m_q * inside",
        "pull_T",
        "tests/theory/test_golden.py::test_reference_value[10-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/prox_averages.py",
        "(2.0 * deviation), -averages[1] / deviation**2)",
        "(2.0 * deviation))",
        "tests/theory/test_newton.py::test_jacobian_is_the_derivative_of_the_residual",
    ),
    Mutant(
        "theory/fixed_point/prox_averages.py",
        "[explicit + through @ chain, chain[-1:]]",
        "[through @ chain, chain[-1:]]",
        "tests/theory/test_newton.py::test_jacobian_is_the_derivative_of_the_residual",
    ),
    Mutant(
        "theory/fixed_point/square_loss.py",
        "nu2 = alpha * V**2 * (e2 + B * m[:, 1] ** 2) / bracket",
        "nu2 = alpha * V**2 * e2 / bracket",
        "tests/theory/test_golden.py::test_reference_value[13-theory.erm]",
    ),
    Mutant(
        "theory/fixed_point/square_loss.py",
        "nu2 = alpha * (e2 + m[:, 1] ** 2) / (1.0 - alpha)",
        "nu2 = alpha * e2 / (1.0 - alpha)",
        "tests/theory/test_square_loss.py::test_a_ridge_tends_to_none[attention-0.3]",
    ),
    Mutant(
        "theory/capacity.py",
        "_Shortfall((v + a * a) * tail - a * s * density, tail",
        "_Shortfall((v + a * a) * tail, tail",
        "tests/theory/test_golden.py::test_reference_value[6-theory.capacity]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "push - c * variance / alpha0",
        "push + c * variance / alpha0",
        "tests/theory/test_golden.py::test_reference_value[0-theory.alignment]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "theta**2 * (R * (1 - R / L))",
        "theta**2 * R",
        "tests/theory/test_golden.py::test_reference_value[0-theory.alignment]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "Q = second.mean**2 * first.noise + second.noise(first, alpha0)",
        "Q = second.noise(first, alpha0)",
        "tests/theory/test_golden.py::test_reference_value[0-theory.alignment]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "return -eta_b * (",
        "return eta_b * (",
        "tests/theory/test_golden.py::test_reference_value[0-theory.alignment]",
    ),
    Mutant(
        "theory/alignment.py",
        "Q = second.mean**2 * first.noise + second.noise(noiseless, 1.0)",
        "Q = second.noise(noiseless, 1.0)",
        "tests/theory/test_alignment.py::test_cosine_approaches_one_at_the_stated_rate[logistic]",
    ),
    Mutant(
        "laws/error_measures.py",
        'below[np.searchsorted(ranked, scores, "right")]',
        'below[np.searchsorted(ranked, scores, "left")]',
        "tests/laws/test_error_measures.py::test_ranked_scores_are_all_pairs",
    ),
    Mutant(
        "laws/bag_model_measures.py",
        "float(ranked) + 0.5 * task.contamination",
        "float(ranked)",
        "tests/laws/test_bag_model_measures.py::test_negative_bags_that_carry_a_signal[pooled]",
    ),
    Mutant(
        "laws/law.py",
        "least = SECOND_LEVEL if points == self.first_points else 2",
        "least = 2",
        "tests/laws/test_heads.py::test_levels_of_refinement_end",
    ),
    Mutant(
        "laws/coloured.py",
        "T=drawn.positive.T - shift * mass",
        "T=drawn.positive.T",
        "tests/theory/test_coloured.py::test_white_noise_is_erm",
    ),
    Mutant(
        "theory/capacity.py",
        "hessian[np.ix_(places, places)] += 2 * K @ w_v",
        "hessian[np.ix_(places, places)] += K @ w_v",
        "tests/theory/test_capacity.py::test_gradient_and_hessian_of_the_objective",
    ),
    Mutant(
        "theory/fixed_point/plain.py",
        "/ deviation * (1 + step * c))",
        "/ deviation)",
        "tests/theory/test_erm.py::test_margin_densities_integrate_to_the_errors",
    ),
    Mutant(
        "theory/sweep.py",
        "first = last if begins else first",
        "first = last",
        "tests/theory/test_sweep.py::test_points_start_from_the_last_one_and_lines_from_where_the_last_line_began",
    ),
    Mutant(
        "theory/bayes/subset_sums.py",
        "sum((-1) ** j * scaled[j] * e[r - j - 1]",
        "sum(scaled[j] * e[r - j - 1]",
        "tests/theory/test_bayes.py::test_bulk_of_a_long_bag_against_every_token",
    ),
    Mutant(
        "laws/error_measures.py",
        "prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity)",
        "prevalence * (1.0 - specificity) + (1.0 - prevalence) * (1.0 - sensitivity)",
        "tests/laws/test_error_measures.py::test_measures_are_shares_of_drawn_scores",
    ),
    Mutant(
        "laws/error_measures.py",
        "np.hypot(s1[:, :, None], s0[:, None, :])",
        "s1[:, :, None]",
        "tests/laws/test_error_measures.py::test_pairs_of_one_entry_are_exact",
    ),
    Mutant(
        "laws/error_measures.py",
        "1.0 - 0.5 * (sensitivity + specificity)",
        "1.0 - (sensitivity + specificity)",
        "tests/laws/test_error_measures.py::test_measures_are_shares_of_drawn_scores",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "size * self.g + float(c @ self.bags.mean_shift)",
        "size * self.g - float(c @ self.bags.mean_shift)",
        "tests/simulation/test_steps.py::test_reference_cosines[0.5]",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "noise -= self.c_hat * (self.c_hat @ noise)",
        "noise -= 0.0 * (self.c_hat @ noise)",
        "tests/simulation/test_steps.py::test_fields_add_up_to_what_the_readout_is_made_of[reduced]",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "self.bags.mean_scale * (along_g + self.norm * noise)",
        "self.bags.mean_scale * (self.norm * noise)",
        "tests/simulation/test_samplers.py::test_two_steps_have_the_same_law",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "np.maximum(length - 2, 0) / 2.0",
        "np.maximum(length, 0) / 2.0",
        "tests/simulation/test_samplers.py::test_two_steps_have_the_same_law",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "along_w += float(weight @ (push * e1 + size * e_square))",
        "along_w += float(weight @ (push * e1))",
        "tests/simulation/test_samplers.py::test_two_steps_have_the_same_law",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "squares += float(weight**2 @ (push**2 + 2.0 * size * push * e1 + size**2 * e_square))",
        "squares += float(weight**2 @ (push**2 + 2.0 * size * push * e1))",
        "tests/simulation/test_samplers.py::test_two_steps_have_the_same_law",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "rng.chisquare(dimension - np.arange(count))",
        "rng.chisquare(dimension, count)",
        "tests/simulation/test_samplers.py::test_bulk_rows_below_and_above_the_dimension",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "rng.standard_normal(len(bags)) + bags.mean_shift",
        "rng.standard_normal(len(bags)) - bags.mean_shift",
        "tests/simulation/test_samplers.py::test_features_have_the_same_law[9-pooled]",
    ),
    Mutant(
        "simulation/two_steps.py",
        "(part - self.means[which, None, None])",
        "part",
        "tests/simulation/test_steps.py::test_steps_are_gradients[logistic]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "at = at + balancing_bias(",
        "at = at - balancing_bias(",
        "tests/theory/test_centred.py::test_reference_values[short]",
    ),
    Mutant(
        "simulation/two_steps.py",
        "return -training.eta_b * float(c.mean())",
        "return training.eta_b * float(c.mean())",
        "tests/simulation/test_steps.py::test_steps_are_gradients[logistic]",
    ),
    Mutant(
        "laws/signals.py",
        "(first[:, None] + np.arange(sparsity)) % length",
        "np.minimum(first[:, None] + np.arange(sparsity), length - 1)",
        "tests/simulation/test_samplers.py::test_places_follow_their_law[2-where1]",
    ),
    Mutant(
        "losses.py",
        "return self.loss.prox(h, step * self.weight(y), y)",
        "return self.loss.prox(h, step, y)",
        "tests/test_losses.py::test_generic_prox_agrees_with_the_closed_ones",
    ),
    Mutant(
        "losses.py",
        "return s**gamma * p * ((1.0 + 2.0 * gamma) * s + gamma",
        "return s**gamma * p * ((1.0 + gamma) * s + gamma",
        "tests/test_losses.py::test_derivatives_by_finite_differences[focal:2]",
    ),
    Mutant(
        "solvers/objective.py",
        "b = (g[-1] - float(toward @ h)) / left",
        "b = g[-1] / left",
        "tests/solvers/test_features.py::test_inverse_hessian[numpy-shape1-False]",
    ),
    Mutant(
        "solvers/objective.py",
        "mixed += np.asarray(root[rows][bent] @ scaled)",
        "mixed += np.asarray(np.ones(len(bent)) @ scaled)",
        "tests/solvers/test_minimise.py::test_directions_solve_the_newton_system[shape0-logistic]",
    ),
    Mutant(
        "solvers/minimise.py",
        "return goal == 0.0 or math.log(best.size / goal) > price * rate",
        "return False",
        "tests/solvers/test_minimise.py::test_lbfgs_gives_up_where_it_is_slow",
    ),
    Mutant(
        "solvers/erm.py",
        "p, ridge, loss = p / scale, ridge / scale, loss.loss",
        "p, loss = p / scale, loss.loss",
        "tests/solvers/test_erm.py::test_agrees_with_a_general_minimiser[logistic:positives=9]",
    ),
    Mutant(
        "losses.py",
        "break\n            return h + y * gap",
        "break\n            return h - y * gap",
        "tests/test_losses.py::test_prox_solves_its_equation[1.0-logistic]",
    ),
    Mutant(
        "losses.py",
        "(a + step) / (1.0 + step)",
        "(a + step) / (2.0 + step)",
        "tests/test_losses.py::test_prox_solves_its_equation[1.0-smoothed_hinge]",
    ),
    Mutant(
        "theory/bayes/oracle.py",
        "threshold = gap / 2 + np.log((1 - pi) / pi) / gap",
        "threshold = gap / 2 - np.log((1 - pi) / pi) / gap",
        "tests/theory/test_golden.py::test_reference_value[5-theory.oracle]",
    ),
    Mutant(
        "theory/bayes/limit.py",
        "self.gain = alpha * task.prevalence * self.theta**2",
        "self.gain = alpha * self.theta**2",
        "tests/theory/test_golden.py::test_reference_value[9-theory.bayes_limit]",
    ),
    Mutant(
        "simulation/samplers/implicit_bags.py",
        "other.images @ vector - other.basis @ image",
        "other.images @ vector",
        "tests/simulation/test_implicit_bags.py::test_answers_are_those_of_one_matrix",
    ),
    Mutant(
        "simulation/samplers/implicit_bags.py",
        "block + (along_E[which] - block @ E.T) @ E",
        "block + along_E[which] @ E",
        "tests/simulation/test_reuse.py::test_features_agree_with_the_products_before_them",
    ),
    Mutant(
        "theory/dynamics/recursion.py",
        "window.mix(fields.innovations, group.normals) + window.mix(fields.memory, G_before)",
        "window.mix(fields.innovations, group.normals)",
        "tests/theory/test_trajectory.py::test_pooling_with_the_square_loss_is_linear[0.2-0.0]",
    ),
    Mutant(
        "theory/dynamics/recursion.py",
        "plan.momentum[t] * (now - last) - state.P @ K",
        "plan.momentum[t] * (now - last)",
        "tests/theory/test_trajectory.py::test_pooling_with_the_square_loss_is_linear[0.2-0.0]",
    ),
    Mutant(
        "theory/dynamics/recursion.py",
        "over_steps(averages.products / plan.alpha[t])",
        "over_steps(averages.products)",
        "tests/theory/test_trajectory.py::test_pooling_with_the_square_loss_is_linear[0.2-0.0]",
    ),
    Mutant(
        "theory/dynamics/recursion.py",
        "now * (1 - plan.decay[t] * rates)",
        "now * (1 + plan.decay[t] * rates)",
        "tests/theory/test_trajectory.py::test_pooling_with_the_square_loss_is_linear[0.2-0.0]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "((1 - pi) * (1.0 - contaminated)) * chance, -label",
        "(1 - pi) * chance, -label",
        "tests/theory/test_differing_bags.py::test_alignment_is_the_limit_of_the_steps[logistic-contamination]",
    ),
    Mutant(
        "theory/two_step_formulas.py",
        "((1.0, 1.0 - eps), (-1.0, eps))",
        "((1.0, 1.0 - eps), (1.0, eps))",
        "tests/theory/test_differing_bags.py::test_alignment_is_the_limit_of_the_steps[logistic-label_noise]",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "own_noise = math.sqrt(1.0 - task.correlation)",
        "own_noise = 1.0",
        "tests/theory/test_differing_bags.py::test_alignment_is_the_limit_of_the_steps[logistic-correlation]",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "np.sqrt((1.0 - correlation) * kappa**2 + correlation * total**2)",
        "np.sqrt((1.0 - correlation) * kappa**2)",
        "tests/theory/test_differing_bags.py::test_all_losses_and_a_readout_alone[square]",
    ),
    Mutant(
        "paper/catalogue/capacity.py",
        'fit_line(1.0 / part["d"], part["median"], part["error"])\n        found',
        'fit_line(part["d"], part["median"], part["error"])\n        found',
        "tests/paper/test_catalogue.py::test_capacity_threshold[1.0-0.05-confirmed]",
    ),
    Mutant(
        "paper/catalogue/claim_builders.py",
        "worst(larger(high, low, len(pairs)) for high, low in pairs)",
        "worst(larger(high, low, 1) for high, low in pairs[:1])",
        "tests/paper/test_catalogue.py::test_more_signal_tokens[pooled1-refuted]",
    ),
    Mutant(
        "estimators/calibration.py",
        "return max(1.0, together / single) if single > 0 else 1.0",
        "return 1.0",
        "tests/estimators/test_calibration.py::test_copies_do_not_count_as_evidence_again",
    ),
    Mutant(
        "estimators/calibration.py",
        "return Calibration(low=prior - UNVALIDATED, high=prior + UNVALIDATED, center=prior)",
        "return Calibration(low=-UNVALIDATED, high=UNVALIDATED)",
        "tests/estimators/test_calibration.py::test_where_nothing_can_be_held_out_odds_stay_near_the_frequencies",
    ),
    Mutant(
        "estimators/calibration.py",
        "best = int(np.argmin([fit.loss for fit, _ in fits]))",
        "best = int(np.argmax([fit.loss for fit, _ in fits]))",
        "tests/estimators/test_calibration.py::test_of_several_settings_the_one_of_least_calibrated_loss_is_chosen",
    ),
    Mutant(
        "estimators/default/vote.py",
        "slope = count * odds @ (p * loss.slope(z, y)) + log_c",
        "slope = count * odds @ (p * loss.slope(z, y))",
        "tests/estimators/test_vote.py::test_shares_minimise_what_the_module_says",
    ),
    Mutant(
        "planning/extrapolation.py",
        "flat = np.where(rho == shares[-1], FLAT, (1.0 - FLAT) / (len(shares) - 1))",
        "flat = 1.0 + 0.0 * rho",
        "tests/planning/test_extrapolation.py::test_a_flat_curve_is_a_hypothesis_by_itself",
    ),
    Mutant(
        "estimators/default/bag_regressor.py",
        "count = len(y) / design_effect(y**2 - errors, weights, groups)",
        "count = len(y)",
        "tests/estimators/test_bag_regressor.py::test_copies_add_nothing_to_the_trust_in_a_regression",
    ),
    Mutant(
        "estimators/out_of_distribution.py",
        "return 1.0 / np.maximum(beyond, 1.0) ** 2",
        "return 1.0 / np.maximum(beyond, 1.0)",
        "tests/estimators/test_out_of_distribution.py::test_distances_are_those_of_means_and_spreads",
    ),
    Mutant(
        "estimators/default/views.py",
        "np.flatnonzero(varying_features(bags.tokens))",
        "np.arange(bags.n_features)",
        "tests/estimators/test_invariances.py::test_features_and_tokens[constant column-bag-classifier]",
    ),
    Mutant(
        "estimators/default/views.py",
        "return np.lexsort((size, bags.bag_of_token))",
        "return np.arange(bags.n_tokens)",
        "tests/estimators/test_invariances.py::test_features_and_tokens[tokens permuted-bag-classifier]",
    ),
    Mutant(
        "study/store.py",
        "PRAGMA integrity_check(1)",
        "PRAGMA quick_check(1)",
        "tests/study/test_store.py::test_no_damage_changes_what_is_read",
    ),
    Mutant(
        "study/runner.py",
        "                self._repeat(suspects)\n",
        "                self.executor.restart()\n",
        "tests/study/test_runner.py::test_a_killed_worker_costs_no_other_trial",
    ),
    Mutant(
        "bags/dask_cluster.py",
        "[np.argsort(order)]",
        "[order]",
        "tests/bags/test_dask_cluster.py::test_a_pass_is_not_made_for_what_is_known",
    ),
    Mutant(
        "bags/reading/read_bags.py",
        "mine = (np.cumsum(kept) - 1)[held.bag_of_row[rows]]",
        "mine = held.bag_of_row[rows]",
        "tests/bags/test_folders.py::test_labels_are_matched_to_bags_and_not_to_files",
    ),
    Mutant(
        "bags/reading/folders.py",
        "filled[code] += count",
        "filled[code] += 0",
        "tests/bags/test_folders.py::test_parquet_files_may_hold_parts_of_many_bags",
    ),
    Mutant(
        "bags/reading/torch_files.py",
        "> max(numbers - 1, self.shape[1])",
        "> 2 * max(numbers - 1, self.shape[1])",
        "tests/bags/test_folders.py::test_tensors_that_reach_beyond_their_file_are_refused",
    ),
    Mutant(
        "bags/bags.py",
        "tokens = rows_taken(self.tokens, np.flatnonzero(complete))",
        "tokens = rows_taken(self.tokens, np.arange(lengths.sum()))",
        "tests/bags/test_files.py::test_missing_values_are_kept_where_that_is_asked_for",
    ),
    Mutant(
        "cli/printing.py",
        "limit = next(limit for limit in range(1, room + 1)",
        "limit = next(limit for limit in range(room, room + 1)",
        "tests/cli/test_simulate.py::test_narrow_terminals_get_several_tables",
    ),
    Mutant(
        "study/kind_registry.py",
        'flat["seed"] = stream_seed(self.name, arguments)',
        'flat["seed"] = arguments["seed"]',
        "tests/study/test_kinds.py::test_simulations_take_noise_and_test_options",
    ),
    Mutant(
        "theory/dynamics/design_end.py",
        "np.linalg.solve(np.eye(len(x)) - table[:, : len(x)], table[:, len(x) :])",
        "table[:, len(x) :]",
        "tests/theory/test_design.py::test_gradients_through_the_end_are_right",
    ),
    Mutant(
        "bag_models.py",
        "(w + sharpness * m)",
        "w",
        "tests/test_bag_models.py::test_two_layers_mix_whole_tokens",
    ),
]

# What all mutants import and none changes: loaded once, by the process from which theirs are forked.
SHARED_IMPORTS = ["pytest", "numpy", "scipy.optimize", "scipy.stats", "jax", "jax.numpy", "hypothesis"]


def copy_of_the_source(folder: Path, origin: Path = ROOT / "src") -> Path:
    """The package's source, elsewhere; what Python has compiled of it goes along, and holds until a file is changed."""
    return shutil.copytree(origin, folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))


def broken_copy(mutant: Mutant, folder: Path, origin: Path = ROOT / "src") -> Path:
    """The package's source with the change made; ValueError unless its text occurs exactly once."""
    source = copy_of_the_source(folder, origin)
    path = source / "sparsetoken" / mutant.file
    text = path.read_text()
    if text.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file} has {text.count(mutant.text)} times: {mutant.text}")
    path.write_text(text.replace(mutant.text, mutant.changed))
    return source


def _run_tests(tests: list[str], source: str, output: str, stop_at_first: bool) -> None:
    """In a process of its own: pytest on that source, its output in a file, its verdict as the exit code."""
    import pytest

    with open(output, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ["PYTHONPATH"] = source  # for processes that tests start
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # tests of the core use none of them
    sys.path.insert(0, source)
    os.chdir(ROOT)
    options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *(["-x"] if stop_at_first else [])]
    os._exit(int(pytest.main([*options, *tests])))


def failing(tests: list[str], source: Path, seconds: float, stop_at_first: bool = True) -> list[str]:
    """Which of these tests fail on that source; all of them where they take longer than `seconds`."""
    context = multiprocessing.get_context("forkserver")
    with tempfile.NamedTemporaryFile("r") as output:
        process = context.Process(target=_run_tests, args=(tests, str(source), output.name, stop_at_first))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            return tests
        said = Path(output.name).read_text()
    if process.exitcode not in (0, 1):
        raise RuntimeError(f"{' '.join(tests)}: pytest ended with {process.exitcode}\n{said[-2000:]}")
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE) if process.exitcode else []


def noticed(mutant: Mutant, origin: Path) -> bool:
    """Whether the mutant's test fails."""
    with tempfile.TemporaryDirectory() as folder:
        return bool(failing([mutant.test], broken_copy(mutant, Path(folder), origin), SECONDS))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of file names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--workers", type=int, default=2, help="mutants tried at the same time")
    parser.add_argument("--out", type=Path, help="file that the verdicts are written to as well, one by one")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.only or any(part in m.file for part in given.only)]
    if given.list:
        print("\n".join(m.title for m in chosen))
        return 0
    if given.out is not None:
        given.out.write_text("")

    def say(line: str) -> None:
        print(line, flush=True)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(line + "\n")

    caught, begun = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.workers) as pool:
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        # Most of what JAX compiles is the same for all mutants: they share it (see tests/conftest.py).
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{folder}/compiled")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
        multiprocessing.get_context("forkserver").set_forkserver_preload(SHARED_IMPORTS)
        origin = copy_of_the_source(Path(folder))
        tests = sorted({mutant.test for mutant in chosen})
        failed = failing(tests, origin, SECONDS * len(tests), stop_at_first=False)
        unfit = {test for test in tests if any(name.partition("[")[0] == test or name == test for name in failed)}
        for test in sorted(unfit):
            say(f"UNFIT     {test} fails without any change")
        tried = {pool.submit(noticed, mutant, origin): mutant for mutant in chosen if mutant.test not in unfit}
        for done in as_completed(tried):
            caught += done.result()
            say(f"{'noticed ' if done.result() else 'SURVIVED'}  {tried[done].title}")
    say(f"{caught} of {len(chosen)} mutants noticed in {time.perf_counter() - begun:.0f} s")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
