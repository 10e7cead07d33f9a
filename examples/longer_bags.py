"""Trained on bags of 10 tokens, tested on longer ones: what is lost, and what one number fitted again gets back.

The query (cosine 0.9 with the signal, sharpness 1.5) and the readout (alpha 2, ridge 0.01) stay as trained at L = 10. Prints a
table in Markdown; takes about half a minute.
"""

from sparsetoken import Task, theory

COSINE, SHARPNESS, ALPHA, RIDGE = 0.9, 1.5, 2.0, 0.01


def main() -> None:
    """One row per test length."""
    trained = theory.erm(theory.attention_law(Task(length=10), COSINE, SHARPNESS), ALPHA, RIDGE)
    print("| L | error | AUC | sensitivity | specificity | best threshold | best sharpness | trained at L |")
    print("|---|---|---|---|---|---|---|---|")
    for length in (10, 20, 100, 1000):
        task = Task(length=length)
        plain = trained.on(task)
        threshold, sharpness = (theory.refit(trained, task, what) for what in ("threshold", "sharpness"))
        again = theory.erm(theory.attention_law(task, COSINE, SHARPNESS), ALPHA, RIDGE)
        print(
            f"| {length} | {plain.test_error:.4f} | {plain.auc:.3f} | {plain.sensitivity:.3f} | {plain.specificity:.4f} "
            f"| {threshold.test_error:.4f} (b {threshold.tested['bias_shift']:+.2f}) "
            f"| {sharpness.test_error:.4f} (k = {sharpness.tested['sharpness']:.2f}) | {again.test_error:.4f} |"
        )


if __name__ == "__main__":
    main()
