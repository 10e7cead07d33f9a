"""The paper's classifiers as estimators: pooled, vectorized, elementwise, attention."""
