"""Gated attention (ABMIL; Ilse, Tomczak and Welling 2018), the usual deep baseline for bags, where PyTorch is installed.

    h_l = relu(W x_l + c),   a = softmax_l(<u, tanh(V h_l) * sigmoid(U h_l)>),   log odds of the classes = C sum_l a_l h_l + b

Adam with decoupled weight decay on the mean cross entropy of all bags; tokens are scaled first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from ..bags.bags import Bags
from ..bags.scaler import BagScaler


class GatedAttention(ClassifierMixin, BaseEstimator):
    """The baseline "ABMIL" of `evaluate`: 64 units h, 32 units of the gates, 200 steps of Adam."""

    def fit(self, bags: Bags, y: Any) -> GatedAttention:
        """Train on labelled bags."""
        import torch

        self.classes_, codes = np.unique(y, return_inverse=True)
        self.scaler_ = BagScaler().fit(bags)
        generator = torch.Generator().manual_seed(0)

        def layer(inputs: int, outputs: int) -> Any:
            weights = torch.randn(inputs, outputs, generator=generator) / np.sqrt(inputs)
            return weights.requires_grad_()

        d, classes, hidden, gate = bags.n_features, len(self.classes_), 64, 32
        shapes = ((d, hidden), (hidden, gate), (hidden, gate), (gate, 1), (hidden, classes))
        biases = [torch.zeros(size, requires_grad=True) for size in (hidden, classes)]
        self.parameters_ = [*(layer(*shape) for shape in shapes), *biases]
        optimiser = torch.optim.AdamW(self.parameters_, lr=3e-3, weight_decay=1e-2)
        tokens, owner = self._inputs(bags)
        targets = torch.as_tensor(codes)
        for _ in range(200):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(self._outputs(tokens, owner, len(bags)), targets)
            loss.backward()
            optimiser.step()
        return self

    def _inputs(self, bags: Bags) -> tuple[Any, Any]:
        import torch

        tokens = np.asarray(self.scaler_.scaled(bags.tokens), dtype=np.float32)
        return torch.as_tensor(tokens), torch.as_tensor(np.asarray(bags.bag_of_token))

    def _outputs(self, tokens: Any, owner: Any, count: int) -> Any:
        import torch

        first, tanh, gate, attend, last, shift, bias = self.parameters_
        h = torch.relu(tokens @ first + shift)
        scores = ((torch.tanh(h @ tanh) * torch.sigmoid(h @ gate)) @ attend)[:, 0]
        most = torch.full((count,), -torch.inf).scatter_reduce(0, owner, scores.detach(), "amax")
        weights = torch.exp(scores - most[owner])
        total = torch.zeros(count).index_add(0, owner, weights)
        pooled = torch.zeros(count, h.shape[1]).index_add(0, owner, weights[:, None] * h) / total[:, None]
        return pooled @ last + bias

    def predict_log_proba(self, bags: Bags) -> np.ndarray:
        """Log probabilities of `classes_`, (bags, classes)."""
        import torch

        with torch.no_grad():
            return torch.log_softmax(self._outputs(*self._inputs(bags), len(bags)), 1).double().numpy()
