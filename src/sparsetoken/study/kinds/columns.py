"""The columns that the package's kinds of trial give, each with its meaning: one name means one thing in all of them."""

from __future__ import annotations

ERROR = ("test_error", "balanced_error", "train_loss", "train_error", "norm_w", "bias")
MEASURES = ("auc", "sensitivity", "specificity")
QUERY = ("cosine_q", "steps_cosine_w", "steps_norm_q")
BINS = ("bin", "left", "right")

MEANINGS = {
    "test_error": "share of fresh bags that are misclassified (a prediction, or measured)",
    "standard_error": "standard error of the predicted test error",
    "balanced_error": "mean of the two classes' error rates",
    "auc": "area under the ROC curve, on fresh bags",
    "sensitivity": "share of fresh positive bags that are found",
    "specificity": "share of fresh negative bags that are passed",
    "train_loss": "mean loss on the training bags, without the ridge",
    "train_error": "share of the training bags that are misclassified",
    "norm_w": "‖w‖ of the readout; after the two steps, of w₁",
    "bias": "b of the readout; after the two steps, b₁",
    "cosine_w": "cos(w, ξ); after the two steps, of w₁",
    "cosine_q": "cos(q₂, ξ) of the query",
    "given_share": "cos(q₂, ξ) by the formulas, given the share of positives of this data set",
    "cosine_q_spread": "standard deviation of cos(q₂, ξ) between data sets",
    "share_negative": "share of the data sets whose query points away from the signal",
    "test_error_spread": "standard deviation of the test error between data sets",
    "norm_q": "‖q₂‖",
    "overlap_w": "⟨w₁, ξ⟩",
    "overlap_q": "⟨q₂, ξ⟩",
    "steps_cosine_w": "cos(w₁, ξ), after the first of the two steps",
    "steps_norm_q": "‖q₂‖, after the second of the two steps",
    "sharpness": "k = β‖q₂‖ (`sharpness_result` in a table that has such an argument)",
    "k": "k = β‖q₂‖, the inverse temperature that the query has",
    "best_k": "the best k on the test bags",
    "eta_q_used": "η_q, as given or as the argument `sharpness` sets it",
    "rate": "K of 1 − |cos(q₂, ξ)| → K/α₀",
    "anti_margin": "what is positive exactly where the query is anti-aligned (labels without contamination)",
    "anti_aligned": "whether the query is anti-aligned",
    "converged": "1 where the readout's solver reached a minimum, else 0",
    "threshold_error": "test error with the threshold fitted to the test bags",
    "bias_shift": "the shift of the bias that fits the threshold",
    "sharpness_error": "test error with sharpness and threshold fitted",
    "query_error": "the same after a training with the query ξ itself",
    "test_length": "tokens per bag of the test",
    "alpha": "n/d of the row",
    "ridge": "λ of the row",
    "alpha_star": "the largest n/d that is separable",
    "n_star": "the largest n that is separable",
    "bin": "number of the bin",
    "left": "left edge of the bin",
    "right": "right edge of the bin",
    "fitted": "score of a training bag by the readout fitted to all",
    "left_out": "its score by the readout fitted without it",
    "shortcut": "what the theory takes for that score",
    "train_share": "share of the training margins in the bin",
    "test_share": "share of the test margins in the bin",
    "share": "share of the positive bags in the bin; in `planned`, of the samples that the two steps get",
    "mass": "mean attention mass on the signal tokens of positive bags",
    "negative_mass": "mean attention mass on as many tokens of negative bags",
    "uniform": "attention mass on the signal tokens if all tokens were weighed alike, R/L",
    "overlap": "squared cosine of the best (or the found) estimate with ξ",
    "expected_overlap": "the squared cosine that message passing expects of itself",
    "reachable_overlap": "squared cosine that message passing reaches",
    "reachable_test_error": "test error that message passing reaches",
    "hard": "whether message passing falls short of the optimum",
    "trial": "number of the simulated data set",
    "planned_error": "test error with the planner's settings, simulated",
    "default_error": "test error with the default settings, simulated",
    "expected": "test error that the plan promises at this n and d",
    "limit": "test error of the planner's settings in the limit of large n and d",
    **{f"planned_{name}": f"the planner's {name}" for name in ("eta_w", "eta_q", "beta", "ridge")},
    "planned_eta_b": "the planner's eta_b; NaN where it centres the residuals",
    "strength_needed": "θ at which the target is reached",
    "needed": "the strength θ, or α = n/d, at which the target is reached",
    "cosine": "cosine of the direction learnt with ξ",
    "step": "gradient step of the row, from 0",
    "unstable": "whether training amplifies small differences from an earlier step on",
    "shift": "largest bias of the test error from averages over few bags",
    "best_bias_error": "test error with the best bias for the same directions",
    "refitted_error": "test error with the bias refitted to leave-one-out scores",
    "leave_one_out_error": "share of the training bags that are misclassified by their leave-one-out scores",
    "replicon": "below 1 where the end of training is stable",
    "coexist": "whether informed and uninformed starts end at different points",
    "overlap[*]": "⟨direction, ξ⟩, one column per direction of the model, such as `overlap[q]`",
    "cosine[*]": "cosine of the direction with ξ, such as `cosine[q]`",
    "gram[*]": "scalar product of two directions, such as `gram[q,w]`",
}
PLANNED = (
    *("planned_error", "default_error", "expected", "expected_se"),
    *("planned_eta_w", "planned_eta_b", "planned_eta_q", "planned_beta", "planned_ridge"),
)
_OF_A_STEP = ("test_error", "train_loss", "train_error", "auc", "sensitivity", "specificity", "bias")
_OF_DIRECTIONS = ("overlap[*]", "cosine[*]", "gram[*]")
STEPS = ("step", *_OF_A_STEP, *_OF_DIRECTIONS, *(f"{name}_se" for name in (*_OF_A_STEP, *_OF_DIRECTIONS)))
END = (*_OF_A_STEP, "best_bias_error", "refitted_error", "leave_one_out_error", "overlap[*]", "cosine[*]")


def columns(*names: str) -> dict[str, str]:
    """Those columns with their meanings; `name_se` is the standard error of `name`."""
    errors = {f"{name}_se": f"standard error of `{name}`" for name in MEANINGS}
    return {name: (MEANINGS | errors)[name] for name in names}
