"""Where joint training ends: the stationary point of the regularised loss in all directions and the bias."""
