"""Noise that is not white and Gaussian: named laws, functions, real bags."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags, Deployment, Task, Tokens, Training, forecast, simulate
from sparsetoken.simulation.noise import STANDARDS, Demand, RealNoise, noise_of, standardised
from sparsetoken.simulation.readout import counted_measures
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.token_source import token_source

TASK = Task(length=5, sparsity=1, strength=4.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)


def tokens_of(noise, seed=0, d=7, **demands):
    assigned = noise.assign(seed, d, {name.replace("D", ""): demand for name, demand in demands.items()})
    return {name: draw(np.random.default_rng(seed), 0, count) for name, (count, draw) in assigned.items()}


def own_bags(count=60, length=8, d=6, seed=0):
    """Bags whose tokens carry the number of their bag and their place in the first two features."""
    x = np.random.default_rng(seed).standard_normal((count, length, d))
    x[..., 0], x[..., 1] = np.arange(count)[:, None], np.arange(length)
    return x


@pytest.mark.parametrize(
    ("name", "kurtosis"),
    [
        ("rademacher", 1.0),
        ("uniform", 1.8),
        ("laplace", 6.0),
        ("sparse", 30.0),
        ("sparse:0.5", 6.0),
        ("student:9", 4.2),
    ],
)
def test_named_laws_have_mean_zero_variance_one_and_their_kurtosis(name, kurtosis):
    x = tokens_of(noise_of(name), d=20, D0=Demand(4000, 5))["0"].ravel()
    assert abs(x.mean()) < 5 / np.sqrt(len(x))
    assert abs((x**2).mean() - 1) < 5 * np.sqrt((kurtosis - 1) / len(x)) + 1e-12
    assert (x**4).mean() == pytest.approx(kurtosis, rel=0.12)


def test_gaussian_noise_is_the_model_itself():
    assert noise_of(None) is None and noise_of("gaussian") is None
    assert (
        simulate(TASK, TRAINING, 30, 1, tokens=Tokens(noise="gaussian")).test_error
        == simulate(TASK, TRAINING, 30, 1).test_error
    )


def test_counting_agrees_with_the_formula_where_there_is_one():
    """White Gaussian noise as a user's function: the same bags as the tensor sampler's, tested by counting."""
    own = simulate(TASK, TRAINING, 40, 3, tokens=Tokens(noise=lambda rng, shape: rng.standard_normal(shape)))
    exact = simulate(TASK, TRAINING, 40, 3, sampler="tensor")
    assert (own.norm_w, own.train_loss, own.cosine["q"]) == (exact.norm_w, exact.train_loss, exact.cosine["q"])
    assert own.noise == "<lambda>" and exact.noise == "gaussian"
    for name in ("test_error", "auc", "sensitivity", "specificity", "balanced_error"):
        error = own.standard_error if name == "test_error" else own.errors[name]
        assert 0 < error < 0.01, name
        assert abs(getattr(own, name) - getattr(exact, name)) < 4 * error, name


@pytest.mark.parametrize("model", ["attention", "pooled", "vectorized", "elementwise"])
def test_rademacher_noise_follows_the_gaussian_forecast(model):
    found = [
        simulate(TASK, TRAINING, 60, seed, model=model, tokens=Tokens(noise="rademacher")).test_error
        for seed in range(6)
    ]
    expected = np.mean([simulate(TASK, TRAINING, 60, seed, model=model).test_error for seed in range(20, 26)])
    assert abs(np.mean(found) - expected) < 0.025
    assert abs(expected - forecast(TASK, TRAINING, model).test_error) < 0.04


def test_data_sets_share_no_bag_and_keep_bags_together():
    noise = RealNoise(own_bags(), standardise="none")
    assigned = tokens_of(noise, D0=Demand(20, 5), D1=Demand(22, 5), D_test=Demand(None, 8))
    used = {name: x[:, 0, 0] for name, x in assigned.items()}
    assert {name: len(x) for name, x in assigned.items()} == {"0": 20, "1": 22, "_test": 18}
    everything = np.concatenate(list(used.values()))
    assert len(set(everything)) == 60
    for x in assigned.values():
        assert (x[..., 0] == x[:, :1, 0]).all()  # tokens of one bag
        assert all(len(set(bag)) == x.shape[1] for bag in x[..., 1])  # and no token twice
    again = tokens_of(noise, D0=Demand(20, 5), D1=Demand(22, 5), D_test=Demand(None, 8))
    assert all((again[name] == assigned[name]).all() for name in assigned)
    other = tokens_of(noise, seed=1, D0=Demand(20, 5), D1=Demand(22, 5), D_test=Demand(None, 8))
    assert (other["0"] != assigned["0"]).any()


def test_mixed_tokens_come_from_all_bags_of_a_data_set():
    noise = RealNoise(own_bags(), standardise="none", tokens="mixed")
    assigned = tokens_of(noise, D0=Demand(20, 8), D1=Demand(20, 8), D_test=Demand(None, 8))
    places = {name: {tuple(t) for t in x[..., :2].reshape(-1, 2)} for name, x in assigned.items()}
    assert {name: len(p) for name, p in places.items()} == {"0": 160, "1": 160, "_test": 18 * 8}  # no token twice
    assert not (places["0"] & places["1"] or places["0"] & places["_test"])
    assert (assigned["0"][..., 0] != assigned["0"][:, :1, 0]).any()


@pytest.mark.parametrize("tokens", ["own", "mixed"])
def test_bags_are_used_again_only_where_that_is_allowed(tokens):
    bags = own_bags()
    with pytest.raises(ValueError, match=r"noise has 16 bags of 8 tokens for D0, which needs 40: .*replace"):
        tokens_of(RealNoise(bags, "none", tokens), D0=Demand(40, 8), D1=Demand(65, 8))
    assigned = tokens_of(RealNoise(bags, "none", tokens, replace=True), D0=Demand(40, 8), D1=Demand(65, 8))
    ids = [set(x[..., 0].ravel()) for x in assigned.values()]
    assert [len(x) for x in assigned.values()] == [40, 65]
    if tokens == "own":  # with mixed tokens, data sets share bags, but no token
        assert not ids[0] & ids[1]
    rows = [{tuple(t) for t in x.reshape(-1, 6)} for x in assigned.values()]
    assert not rows[0] & rows[1]


def test_short_bags_are_left_out():
    bags = [np.ones((n, 3)) * [i, n, 1] for i, n in enumerate([2, 9, 3, 9, 9, 9, 9])]
    noise = RealNoise(bags, "none", test_share=0.2)
    x = tokens_of(noise, seed=3, D0=Demand(3, 5))["0"]
    assert (x[..., 1] == 9).all()
    with pytest.raises(ValueError, match="noise has no bags of 10 tokens for the training"):
        tokens_of(noise, D0=Demand(3, 10))


def test_standards():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4)) + 3.0
    x = np.column_stack([x, np.full(500, 7.0)])  # a constant feature
    assert standardised(x, "none") is x
    scaled = {name: standardised(x, name) for name in STANDARDS[:3]}
    assert all(s.shape == (500, 4) for s in scaled.values())
    assert all(np.abs(s.mean(0)).max() < 1e-12 for s in scaled.values())
    np.testing.assert_allclose((scaled["features"] ** 2).mean(0), 1.0)
    np.testing.assert_allclose(scaled["whiten"].T @ scaled["whiten"] / 500, np.eye(4), atol=1e-9)
    assert (scaled["scale"] ** 2).mean() == pytest.approx(1.0)
    ratio = scaled["scale"] / (x[:, :4] - x[:, :4].mean(0))
    np.testing.assert_allclose(ratio, ratio[0, 0])


def test_real_bags_as_noise():
    """A user's Gaussian bags: the forecast's error, on held-out bags, with d from the bags."""
    rng = np.random.default_rng(5)
    bags = Bags(10.0 + 3.0 * rng.standard_normal((1200, 6, 40)))
    found = [simulate(TASK, TRAINING, None, seed, tokens=Tokens(noise=bags)) for seed in range(6)]
    assert {r.d for r in found} == {40}
    assert [r.noise for r in found] == ["real"] * 6
    assert {(r.n0, r.n1) for r in found} == {(80, 120)}
    expected = np.mean([simulate(TASK, TRAINING, 40, seed).test_error for seed in range(30)])
    spread = np.std([r.test_error for r in found], ddof=1) / np.sqrt(6)
    assert abs(np.mean([r.test_error for r in found]) - expected) < 4 * spread + 0.01
    assert 0.005 < found[0].standard_error < 0.03  # 360 held-out bags


def test_shipped_noise_by_name():
    plain, whitened, mixed = (noise_of(name) for name in ("text", "text:whiten", "text:mixed:whiten"))
    assert noise_of("text") is plain
    assert (plain.standardise, plain.tokens) == ("features", "own")
    assert (whitened.standardise, whitened.tokens) == ("whiten", "own")
    assert (mixed.standardise, mixed.tokens, mixed.name) == ("whiten", "mixed", "text:mixed:whiten")
    assert noise_of("digits").tokens == "mixed" and noise_of("digits").dimension == 61


def test_a_users_direction():
    rng = np.random.default_rng(1)
    bags = rng.standard_normal((900, 5, 30)) * np.linspace(0.2, 3.0, 30)
    low, high = np.eye(30)[0], np.eye(30)[-1]
    errors = [
        simulate(
            TASK, TRAINING, None, 0, model="pooled", tokens=Tokens(noise=RealNoise(bags, standardise="none"), signal=xi)
        ).test_error
        for xi in (low, high)
    ]
    assert errors[0] < 0.1 < 0.2 < errors[1]


def test_other_lengths_at_test_time_take_other_tokens():
    bags = np.random.default_rng(2).standard_normal((900, 12, 30))
    here, there = (
        simulate(TASK, TRAINING, None, 0, tokens=Tokens(noise=bags), deployment=Deployment(task=test))
        for test in (None, {"length": 12, "strength": 4.0})
    )
    assert here.norm_w == there.norm_w
    assert there.tested["length"] == 12
    assert there.test_error > here.test_error
    with pytest.raises(ValueError, match="noise has no bags of 13 tokens for the test"):
        simulate(TASK, TRAINING, None, 0, tokens=Tokens(noise=bags), deployment=Deployment(task={"length": 13}))


def test_counted_measures():
    positive, negative = np.array([1.0, 2.0, -1.0, 0.5]), np.array([-1.0, 0.7, -2.0, -3.0])
    found = counted_measures(positive, negative, 0.25)
    assert (found.sensitivity, found.specificity) == (0.75, 0.75)
    assert found.test_error == pytest.approx(0.25)
    # 1.0, 2.0 beat all four, 0.5 beats three, -1.0 beats two and ties with one
    assert found.auc == pytest.approx((4 + 4 + 3 + 2.5) / 16)
    wrong = np.array([0.0, 0.75, 0.25, 0.0])
    assert found.standard_error == pytest.approx(wrong.std(ddof=1) / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": "white"}, "noise must be one of gaussian, rademacher"),
        ({"noise": "student:2"}, "noise student must be"),
        ({"noise": "student:many"}, "noise must be student:NUMBER"),
        ({"noise": "rademacher:3"}, "takes no parameter"),
        (
            {"noise": "digits:round"},
            "noise must be digits, with one of features, whiten, scale, none, own, mixed behind",
        ),
        ({"noise": "digits"}, r"d must be the number of the noise's features \(61\) or None, got 20"),
        ({"noise": "sparse", "sampler": "reduced"}, "noise 'sparse' needs every token"),
        ({"noise": "sparse", "sampler": "reduced:cpu"}, "noise 'sparse' needs every token"),
        ({"signal": [1.0] * 20, "sampler": "reduced:cpu"}, "serves white Gaussian noise"),
        ({"noise": lambda rng, shape: np.zeros(3)}, "noise must give finite tokens of shape"),
        ({"noise": np.ones((30, 5, 20))}, "at least two tokens that differ"),
        ({"signal": [0.0, 0.0]}, "signal must be a list of finite numbers, not all zero"),
        ({"signal": [1.0, 0.0]}, r"d must be the number of the signal's coordinates \(2\) or None, got 20"),
        ({"noise": "sparse", "covariance": np.ones(20)}, "give covariance or noise, not both"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        tokens = {name: arguments.pop(name) for name in ("noise", "covariance", "signal") if name in arguments}
        simulate(TASK, TRAINING, 20, 0, tokens=Tokens(**tokens), **arguments)


def test_more_refusals():
    with pytest.raises(ValueError, match="tokens must be one of own, mixed"):
        RealNoise(own_bags(), tokens="all")
    with pytest.raises(ValueError, match="test_share must be"):
        RealNoise(own_bags(), test_share=1.0)
    with pytest.raises(ValueError, match="replace must be true or false"):
        RealNoise(own_bags(), replace="yes")


def by_hand(data, training):
    """Joint descent written out: f_q(X) = X^T softmax(beta X q), the logistic loss, rates and ridge of the training."""
    (x,) = [np.concatenate([tokens for _, tokens in data.blocks()])]
    y, q, w, b = data.labels, np.zeros(data.d), np.zeros(data.d), 0.0
    for _ in range(training.steps):
        weights = np.exp(training.beta * x @ q)
        weights /= weights.sum(axis=1, keepdims=True)
        outputs = x @ w
        score = (weights * outputs).sum(axis=1)
        slope = -y / (1.0 + np.exp(y * (score + b))) / len(y)
        feature = np.einsum("il,ild->id", weights, x)
        bent = weights * (outputs - score[:, None])
        gradient_q = training.beta * np.einsum("i,il,ild->d", slope, bent, x)
        gradient_w = slope @ feature + training.ridge * w
        q, w, b = q - training.eta_q * gradient_q, w - training.eta_w * gradient_w, b - training.eta_b * slope.sum()
    return q, w, b


JOINT = Training(alpha0=2.0, alpha1=3.0, eta_q=2.0, eta_w=1.5, eta_b=0.7, ridge=1e-2, schedule="joint", steps=8)


@pytest.mark.parametrize(
    "world",
    [{"covariance": np.linspace(0.2, 1.8, 20)}, {"noise": "rademacher"}, {"noise": "student:5", "signal": np.ones(20)}],
    ids=["coloured", "rademacher", "student"],
)
def test_joint_training_is_descent_in_any_noise(world):
    found = simulate(TASK, JOINT, 20, 4, sampler="tensor", tokens=Tokens(**world))
    there = token_source(Tokens(**world), 20)
    signal, _ = there.directions(4, 20)
    ((_, tokens),) = there.assign(4, 20, {":0": Demand(100, TASK.length)}).values()
    q, w, b = by_hand(TensorData(TASK, 100, 20, 4, ":0", noise=tokens, signal=signal), JOINT)
    assert (found.n1, found.noise) == (100, there.name)
    assert found.norm_w == pytest.approx(np.linalg.norm(w), rel=1e-9) and found.bias == pytest.approx(b, rel=1e-9)
    assert found.overlap["q"] == pytest.approx(q @ signal, rel=1e-9)
    assert found.overlap["w"] == pytest.approx(w @ signal, rel=1e-9)
    # Fresh bags drawn here, in the same noise.
    many = 20_000
    ((_, tokens),) = there.assign(5, 20, {"_test": Demand(many, TASK.length)}).values()
    fresh = TensorData(TASK, many, 20, 5, "_test", noise=tokens, signal=signal)
    wrong = []
    for which, x in fresh.blocks():
        weights = np.exp(x @ q) / np.exp(x @ q).sum(axis=1, keepdims=True)
        wrong.append(fresh.labels[which] * ((weights * (x @ w)).sum(axis=1) + b) <= 0)
    share = np.concatenate(wrong).mean()
    error = np.sqrt(share * (1 - share) / many)
    assert abs(found.test_error - share) < 4 * np.hypot(error, found.standard_error)


def test_joint_training_in_white_noise_given_otherwise():
    """A user's normal tokens, a covariance of ones, and a signal: the numbers of plain joint training."""
    plain = simulate(TASK, JOINT, 20, 4, sampler="tensor")
    for world in ({"noise": lambda rng, shape: rng.standard_normal(shape)}, {"covariance": np.ones(20)}):
        found = simulate(TASK, JOINT, 20, 4, sampler="tensor", tokens=Tokens(**world))
        assert found.norm_w == pytest.approx(plain.norm_w, rel=1e-12)
        assert abs(found.test_error - plain.test_error) < 4 * np.hypot(found.standard_error, plain.standard_error)
    axis = np.eye(20)[3]
    assert simulate(TASK, JOINT, 20, 4, tokens=Tokens(signal=axis)).overlap["w"] > 0


def test_joint_training_in_real_noise():
    found = simulate(TASK, JOINT, None, 0, tokens=Tokens(noise="digits"))
    assert (found.noise, found.d, found.n1) == ("digits", 61, 305) and 0 < found.test_error < 0.5
    assert found.test_error == simulate(TASK, JOINT, None, 0, tokens=Tokens(noise="digits")).test_error
    with pytest.raises(ValueError, match="bags of 4 tokens for the training, which needs"):
        simulate(Task(4, 1), JOINT, None, 0, tokens=Tokens(noise=own_bags(count=20)))
    with pytest.raises(ValueError, match="use 'tensor'"):
        simulate(TASK, JOINT, 20, 0, tokens=Tokens(covariance=np.ones(20)))


def test_the_number_of_test_bags_can_be_chosen():
    few, many = (
        simulate(TASK, TRAINING, 20, 0, tokens=Tokens(noise="rademacher"), deployment=Deployment(samples=m))
        for m in (400, 6400)
    )
    assert few.norm_w == many.norm_w
    assert few.standard_error == pytest.approx(4 * many.standard_error, rel=0.4)
    assert np.isnan(few.sampled_error)


def test_bags_used_again_for_the_reuse_schedule():
    found = simulate(TASK, TRAINING.but(schedule="reuse"), 30, 0, tokens=Tokens(noise="rademacher"))
    assert found.n0 == found.n1 == 60
    assert 0.0 < found.test_error < 0.4
