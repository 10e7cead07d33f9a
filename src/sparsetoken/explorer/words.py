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
    "seed": "Another number draws other bags.",
    "model": "What is trained step by step.",
    "steps": "Gradient steps, each on all samples.",
    "rate_q": "Step length of the query.",
    "rate_w": "Step length of the readout.",
    "rate_b": "Step length of the bias.",
    "decay": "Pull towards zero in every step. Some of it usually lowers the test error.",
    "sharpness": "How strongly the largest tokens decide.",
    "start": "Size of the random weights that training starts from.",
    "d": "Dimension of a token in the simulation. The theory is its limit.",
    "trials": "Repetitions, whose scatter gives the error bars.",
}
# What to see in every view, below its plot.
CAPTIONS = {
    "curves": "Lower is better. Look at where attention leaves pooling behind, and at the gap to the Bayes limit, which no "
    "learner can cross. The dotted line marks your samples.",
    "alignment": "At 1 the query points along the signal, at 0 it knows nothing, and below 0 it looks away from it. More "
    "samples bring it closer to 1 or −1, at the pace of the dashed line.",
    "capacity": "With fewer samples than its line says, a model fits the readout's data without a single error, whatever "
    "they mean. Where the dashed line lies below a model's line, it fits all of yours.",
    "phase": "Every cell is one setting. Follow a contour to trade one parameter for the other at the same error; click a "
    "cell to go there.",
    "bag": "Above, what attention pays each token after the two steps, signal tokens in orange; below, the tokens "
    "themselves, their first coordinate along the signal.",
    "training": "The training error falls on; the test error has its best step, the star. Compare it with staged training "
    "and the Bayes limit at as many samples.",
    "lengths": "Attention was trained on short bags. On longer ones the threshold is off first (dashed: fitted again), and "
    "then the signal drowns: watch the AUC.",
    "heads": "Heads share the samples of the steps. With few samples one good query is worth more than several poor ones; "
    "with many, their number makes little difference.",
}
# What the numbers are worth, in the line under the plot.
STATUS = {
    "curves": "theory exact in the limit, computed to 0.001; bars are standard errors",
    "alignment": "closed form",
    "capacity": "computed to 1 % where 32,768 bags suffice; bars are standard errors",
    "phase": "21 × 21 cells (fewer where whole numbers run out)",
    "bag": "one draw; another seed draws another",
    "training": "all α₀ + α₁ samples in every step, in the limit of many dimensions; bands are two standard errors",
    "lengths": "trained at L, tested at longer bags; theory computed to 0.005",
    "heads": "theory exact in the limit, computed to 0.005; bars are standard errors",
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
        {"length": 300, "alpha0": 0.1, "alpha1": 0.1},
    ),
    "long": (
        "Long bags",
        "Trained on bags of twenty tokens, tested on up to a hundred times as many.",
        {"length": 20, "strength": 6, "alpha0": 4, "alpha1": 4, "view": "lengths"},
    ),
}
