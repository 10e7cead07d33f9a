"""What the page says: its story, a word on every parameter, what to see in every view, and settings to start from."""

from __future__ import annotations

from typing import Any

STORY = (
    "A bag holds L tokens of noise; in a positive bag R of them carry a weak signal in a direction that nobody knows. "
    "Attention learns in two gradient steps where to look and then fits a readout: move the sliders to see when that beats "
    "averaging all tokens, and how far it stays from the best that is possible."
)
# A word on every parameter, in plain words; shown on the field and read out with it.
TIPS = {
    "length": "The number of tokens in each bag. More of them hide the signal better.",
    "sparsity": "How many tokens of a positive bag carry the signal. At most the length.",
    "strength": "How far the signal moves a token, where its noise has size 1 in every direction.",
    "prevalence": "The share of bags that are positive. Small values make positives rare.",
    "alpha0": "Bags used for the two gradient steps that form the query, for each dimension of a token.",
    "alpha1": "Bags used for the final fit of the readout, for each dimension of a token.",
    "beta": "How sharply attention prefers tokens with large scores. At 0 all tokens count alike.",
    "eta_w": "Length of the first gradient step, that of the readout.",
    "eta_b": "Length of the bias's step. With rare classes it decides whether the query points the right way.",
    "eta_q": "Length of the second gradient step, that of the query. It makes attention sharper.",
    "ridge": "Weight of the penalty that keeps the readout small. More of it for few or noisy samples.",
    "loss": "What the training minimises on each bag.",
    "equal": "Fair comparisons give the models without a query the samples of the steps as well.",
    "x": "What changes from left to right.",
    "y": "What changes from bottom to top.",
    "colour": "What the colours stand for.",
    "goal": "What the strength must suffice for: a small test error, or a direction that is mostly right.",
    "seed": "Another number draws other bags.",
    "model": "What is trained step by step.",
    "steps": "Gradient steps, each on all samples.",
    "rate_q": "Step length of the query.",
    "rate_w": "Step length of the readout.",
    "rate_b": "Step length of the bias.",
    "decay": "Pull towards zero in every step. Some of it usually lowers the test error.",
    "sharpness": "How strongly the largest tokens decide.",
    "start": "Size of the random weights that training starts from.",
    "d": "Dimension of a token where data are drawn. The theory is its limit.",
    "trials": "Repetitions, whose scatter gives the error bars.",
}
# What to see in every view, below its plot; the answer adds what is so at the state's own values.
CAPTIONS = {
    "curves": "Lower is better; no learner can pass below the Bayes limit. The dotted line marks your samples.",
    "needed": "Steeper lines need more signal as bags get longer; dotted beside them, the powers of L that they approach. "
    "All methods have your α₀ + α₁ samples.",
    "alignment": "At 1 the query points along the signal, at 0 it knows nothing, and below 0 it looks away from it. More "
    "samples bring it closer to 1 or −1, at the pace of the dashed line. Below, how sharply it chooses.",
    "capacity": "With fewer samples than its line says, a model fits the readout's data without a single error, whatever "
    "they mean.",
    "phase": "Follow a contour to trade one parameter for the other at the same error; click to go there.",
    "bag": "Above, what attention pays each token after the two steps, signal tokens in orange; below, the tokens "
    "themselves, their first coordinate along the signal.",
    "training": "Test and training error over the steps; the star is the step with the least test error. The level lines have "
    "learned from as many samples: staged training and the Bayes limit.",
    "lengths": "Attention was trained at your L. On longer bags the threshold is off first (dashed: fitted again), then "
    "the signal drowns: watch the AUC.",
    "heads": "Heads share the samples of the steps: several poor queries, or one good one.",
}
# What the numbers are worth, in the line under the plot.
STATUS = {
    "curves": "theory exact in the limit; standard errors of its computation are in the table",
    "needed": "theory exact in the limit; strengths of trained classifiers to about 1 %",
    "alignment": "closed form",
    "capacity": "computed to 1 % where 32,768 bags suffice",
    "phase": "interpolated between 21 × 21 cells (fewer where whole numbers run out)",
    "bag": "one draw; another seed draws another",
    "training": "in the limit of many dimensions; bands are two standard errors",
    "lengths": "theory exact in the limit, computed to 0.005",
    "heads": "theory exact in the limit, computed to 0.005",
}
# Settings to start from: label, what they show, and what they change from the defaults.
PRESETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "paper": ("The paper", "Ten tokens, one of them with a strong signal.", {}),
    "weak": ("Weak signal", "A signal hardly above the noise: all models need many samples.", {"strength": 2.5}),
    "rare": (
        "Rare class",
        "One bag in ten is positive; a long step of the bias keeps the query on the right side.",
        {"prevalence": 0.1, "eta_b": 5},
    ),
    "anti": (
        "Anti-aligned",
        "Positives are rare and the bias hardly moves: the query learns to look away from the signal.",
        {"prevalence": 0.1, "eta_b": 0.1, "alpha0": 8, "view": "alignment"},
    ),
    "hard": (
        "Hard phase",
        "The Bayes limit lies below what the best known fast method, message passing, reaches.",
        {"length": 300, "alpha0": 0.1, "alpha1": 0.1, "view": "curves"},
    ),
    "long": (
        "Long bags",
        "A thousand tokens: the strength that pooling needs has grown far beyond that of attention.",
        {"length": 1000, "strength": 12, "eta_q": 100, "view": "needed"},
    ),
    "longer": (
        "Longer at test time",
        "Trained on bags of twenty tokens, tested on up to a hundred times as many.",
        {"length": 20, "strength": 6, "alpha0": 4, "alpha1": 4, "view": "lengths"},
    ),
}
