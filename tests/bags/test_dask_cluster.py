"""Bags on a Dask cluster: passes and fits give what they give here, and what cannot be done there is said."""

from __future__ import annotations

from concurrent.futures import CancelledError

import numpy as np
import pandas as pd
import pytest

from sparsetoken import AttentionClassifier, BagClassifier, Bags, PooledClassifier
from sparsetoken._core.workers import ExecutorError
from sparsetoken.bags import dask_cluster
from sparsetoken.bags.dask_cluster import ClusterBags, in_order
from sparsetoken.bags.scaler import BagScaler
from sparsetoken.bags.temporary_files import is_mapped
from sparsetoken.estimators import ElementwiseAttentionClassifier
from sparsetoken.estimators.paper import staged

distributed = pytest.importorskip("distributed", reason="needs the extra sparsetoken[dask]")

BAGS = 60


@pytest.fixture(scope="module")
def client():
    # Tasks travel through a socket, as between machines, though the worker is a thread of this process.
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "protocol": "tcp", "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, dashboard_address=None) as made, distributed.Client(made) as client:
        yield client


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of which a worker reads a few at a time; two hold the same."""
    monkeypatch.setattr(dask_cluster, "PART_BYTES", 5000)
    monkeypatch.setattr(dask_cluster, "HEADERS", 25)
    rng = np.random.default_rng(0)
    for i in range(BAGS):
        X = rng.standard_normal((rng.integers(1, 30), 6))
        X[0, 0] += 4.0 * (i % 2)
        np.save(tmp_path / f"b{i:02d}.npy", X.astype(np.float32 if i % 3 else np.float64))
    np.save(tmp_path / "b07.npy", np.load(tmp_path / "b05.npy"))
    return tmp_path


LABELS = {f"b{i:02d}": i % 2 for i in range(BAGS)}


@pytest.fixture
def both(folder, client):
    here, labels = Bags.from_files(folder, LABELS)
    there, same = Bags.from_files(folder, LABELS, executor=client)
    np.testing.assert_array_equal(labels, same)
    assert isinstance(there, ClusterBags) and len(there._parts()) > 5
    return here, there, labels


@pytest.fixture
def passes(monkeypatch):
    """Grows by one at every pass over bags on the cluster."""
    made, inner = [], ClusterBags._run

    def run(self, *arguments):
        made.append(len(self))
        return inner(self, *arguments)

    monkeypatch.setattr(ClusterBags, "_run", run)
    return made


def _numbered(part, number, factor):
    return np.column_stack([np.add.reduceat(part.tokens, part.starts), number * factor])


def _sum(part):
    return part.tokens.sum(axis=0)


def test_passes_are_those_of_bags(both):
    here, there, _ = both
    assert (len(there), there.shape, there.n_tokens, there.dtype) == (len(here), here.shape, here.n_tokens, here.dtype)
    np.testing.assert_array_equal(there.ids, here.ids)
    order = np.random.default_rng(1).permutation(BAGS)[:40]
    for index in (slice(None), order, np.arange(BAGS) % 3 == 0, np.array([3, 3, 1])):
        a, b = here[index], there[index]
        number = np.arange(len(a), dtype=float)
        np.testing.assert_allclose(b.per_bag(_numbered, (number,), (2.0,)), a.per_bag(_numbered, (number,), (2.0,)))
        np.testing.assert_allclose(b.combined(_sum), a.combined(_sum), rtol=1e-10)
        np.testing.assert_array_equal(b.lengths, a.lengths)
    np.testing.assert_array_equal(there[-1], here[-1])
    scaler = BagScaler().fit(there)
    np.testing.assert_allclose(scaler.mean_, BagScaler().fit(here).mean_, atol=1e-14)
    np.testing.assert_allclose(scaler.transform(there).read([4, 2]).tokens, scaler.transform(here)[[4, 2]].tokens)
    with pytest.raises(ValueError, match="this index leaves no bags"):
        there[np.zeros(BAGS, dtype=bool)]
    with pytest.raises(ValueError, match="scaled already"):
        scaler.transform(there).scaled_by(scaler)


@pytest.mark.parametrize(
    "model",
    [
        PooledClassifier(),
        AttentionClassifier(),
        AttentionClassifier(ridge=0.1, split=0.5, sharpness=1.5, scale=False),
        ElementwiseAttentionClassifier(split="reuse", sharpness=1.5),
    ],
)
@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
def test_fits_are_those_of_bags(both, model):
    here, there, labels = both
    weights = np.where(np.arange(BAGS) == 3, 0.0, 1.0)
    groups = np.arange(BAGS) // 2
    near = model.fit(here, labels, weights, groups).predict_proba(here)
    found = dict(model.diagnostics_)
    far = model.fit(there, labels, weights, groups).predict_proba(there)
    np.testing.assert_allclose(far, near, atol=1e-9)
    assert model.diagnostics_ == pytest.approx(found)
    np.testing.assert_allclose(model.transform(there), model.transform(here), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
def test_a_pass_is_not_made_for_what_is_known(folder, client, passes):
    np.save(folder / "b07.npy", np.load(folder / "b05.npy")[::-1] + 1.0)  # no copies any more
    (bags, labels), (here, _) = (Bags.from_files(folder, LABELS, **given) for given in ({"executor": client}, {}))
    model = AttentionClassifier()
    model.fit(bags, labels)
    # Moments; means and spreads; the two steps; a second product; spreads of both; features of all settings, of the one chosen.
    assert len(passes) == 7
    np.testing.assert_allclose(model.predict_proba(here), AttentionClassifier().fit(here, labels).predict_proba(here))
    passes.clear()
    near = PooledClassifier().fit(here, labels).predict_proba(here)
    np.testing.assert_allclose(PooledClassifier().fit(bags, labels).predict_proba(here), near, atol=1e-9)
    assert passes == []  # all that it needs is known
    some, order = np.arange(10, BAGS), np.random.default_rng(0).permutation(BAGS)
    for chosen, expected in ((some, 2), (order, 2)):  # other bags; what is known is what was asked for last
        near = PooledClassifier().fit(here[chosen], labels[chosen]).coef_
        np.testing.assert_allclose(PooledClassifier().fit(bags[chosen], labels[chosen]).coef_, near, atol=1e-9)
        assert len(passes) == expected
        passes.clear()
    AttentionClassifier(ridge=0.1, split=0.5, sharpness=1.5).fit(bags, labels % 2)
    assert len(passes) == 3
    passes.clear()
    # Means of other scalings are not mistaken for these.
    raw = PooledClassifier(scale=False)
    np.testing.assert_allclose(raw.fit(bags, labels).coef_, PooledClassifier(scale=False).fit(here, labels).coef_)
    assert len(passes) == 1


def test_many_features_lie_in_a_file(both, monkeypatch):
    here, there, labels = both
    monkeypatch.setattr(dask_cluster, "ROW_BYTES", 1000)
    model = AttentionClassifier(sharpness=1.5, split=0.5)
    near = model.fit(here, labels).predict_proba(here)
    np.testing.assert_allclose(model.fit(there, labels).predict_proba(there), near, atol=1e-9)
    assert is_mapped(there.per_bag(_numbered, (np.zeros(BAGS),), (2.0,)))
    monkeypatch.setattr(staged, "room_left", lambda: 0)  # a full disk: some queries at a time
    monkeypatch.setattr(staged, "FEATURE_BYTES", 4000)
    np.testing.assert_allclose(model.fit(there, labels).predict_proba(there), near, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
def test_three_classes(both, passes):
    here, there, _ = both
    labels, model = np.arange(BAGS) % 3, PooledClassifier(ridge=0.1)
    near = model.fit(here, labels).predict_proba(here)
    np.testing.assert_allclose(model.fit(there, labels).predict_proba(there), near, atol=1e-9)
    np.testing.assert_allclose(model.transform(there), model.transform(here), atol=1e-12)


def test_what_cannot_be_done_there_is_said(both):
    _, there, labels = both
    for model in (BagClassifier(), AttentionClassifier("joint"), BagScaler(compress=True)):
        with pytest.raises(ValueError, match=r"does not train on a cluster; PooledClassifier, .* without an executor"):
            model.fit(there, labels)
    with pytest.raises(ValueError, match="device must be 'auto' or 'numpy' for bags on a cluster, got 'cpu'"):
        PooledClassifier(device="cpu").fit(there, labels)
    model = AttentionClassifier(sharpness=1.5, ridge=0.1, split=0.5).fit(there, labels)
    with pytest.raises(ValueError, match=r"not on a cluster: read the bags with bags.read\(index\)"):
        model.token_scores(there)
    assert [len(scores) for scores in model.token_scores(there.read([0, 9]))] == there.lengths[[0, 9]].tolist()


def test_bad_folders_and_executors(folder, client, both):
    _, there, labels = both
    for executor, scheduler, message in (
        ("slurm", None, "executor must be 'local', 'dask' or a client of Dask's, got 'slurm'"),
        (3, None, "got 3"),
        (client, "tcp://a:1", "scheduler belongs to executor='dask'"),
        ("local", "tcp://a:1", "scheduler belongs to executor='dask'"),
        ("dask", "nowhere", "scheduler must be an address"),
    ):
        with pytest.raises(ValueError, match=message):
            Bags.from_files(folder, executor=executor, scheduler=scheduler)
    np.save(folder / "b04.npy", np.ones((3, 6)) * np.nan)
    with pytest.raises(ValueError, match=r"b04.npy contains NaN: token 0, feature 0"):
        PooledClassifier().fit(there, labels)
    np.save(folder / "b04.npy", np.ones((2, 6)))
    with pytest.raises(ValueError, match="changed since the folder was opened"):
        PooledClassifier().fit(there, labels)
    np.save(folder / "b04.npy", np.ones((2, 5)))
    with pytest.raises(ValueError, match=r"b04.npy has 5 features, .*b00.npy has 6"):
        Bags.from_files(folder, executor=client)
    pytest.importorskip("pyarrow")
    pd.DataFrame({"bag_id": ["a", "b"], "x": [1.0, 2.0]}).to_parquet(folder / "t.parquet")
    with pytest.raises(ValueError, match="on a cluster every file holds one bag"):
        Bags.from_files(folder / "t.parquet", executor=client)


def test_the_open_client_and_an_address(folder, client, command):
    assert len(Bags.from_files(folder, executor="dask")) == BAGS  # the client of the fixture is open
    address = client.scheduler.address
    bags, labels = Bags.from_files(folder, LABELS, executor="dask", scheduler=address)
    bags.close()
    with pytest.raises(ExecutorError, match="the connection to the Dask cluster was lost"):
        PooledClassifier().fit(bags, labels)
    pd.Series(LABELS, name="label").rename_axis("bag_id").to_csv(folder / "labels.csv")
    model, given = folder / "m.skops", ("--executor", "dask", "--scheduler", address)
    code, out, err = command("fit", folder, "--labels", folder / "labels.csv", "-m", "pooled", "-o", model, *given)
    assert code == 0 and "60 bags" in out, err
    code, far, err = command("predict", model, folder, *given)
    assert code == 0 and far == command("predict", model, folder)[1], err
    for arguments, message in (
        (("--executor", "dask"), "--executor dask needs --scheduler"),
        (("--executor", "ray"), "executor must be 'local', 'dask' or a client"),
        (("--scheduler", address), "scheduler belongs to executor='dask'"),
        (("-m", "bag-classifier", *given), "BagClassifier does not train on a cluster"),
    ):
        code, _, err = command("fit", folder, "--labels", folder / "labels.csv", "-o", model, *arguments)
        assert code == 2 and message in err
    code, _, err = command("fit", folder / "labels.csv", "-o", model, *given)
    assert code == 2 and "executor goes with a folder of files" in err


def test_a_cluster_that_fails_is_one_line():
    class KilledWorker(Exception):
        pass

    class Client:
        def __init__(self, error):
            self.error = error

        def nthreads(self):
            return {"one": 1}

        def submit(self, *_, **__):
            return self

        def result(self):
            raise self.error

        def cancel(self):
            pass

    for error, message in (
        (KilledWorker(), "died repeatedly at the same bags, most likely for lack of memory"),
        (CancelledError(), "the connection to the Dask cluster was lost"),
        (OSError("gone"), "the connection to the Dask cluster was lost"),
    ):
        with pytest.raises(ExecutorError, match=message):
            list(in_order(Client(error), iter([(len, "a")] * 5)))
    with pytest.raises(ZeroDivisionError):  # the work's own errors are the caller's
        list(in_order(Client(ZeroDivisionError()), iter([(len, "a")])))


def test_versions_must_agree(tmp_path, client):
    with pytest.raises(ValueError, match=r"a worker has sparsetoken .*, this process 0.0.0: install the same version"):
        dask_cluster._headers((), None, "0.0.0")
