"""An independent repetition of a study: other seeds, the same everything else."""

import pytest

from sparsetoken.paper.catalogue import get_studies


@pytest.mark.parametrize("study", get_studies(["fig1", "capacity"]), ids=lambda s: s.name)
def test_reseeded_study_shares_no_random_trial(study):
    other = study.reseeded(1)
    assert study.reseeded(0).trials() == study.trials()
    shared = 0
    for table, trials in study.trials().items():
        again = other.trials()[table]
        assert len(again) == len(trials)
        for one, two in zip(trials, again):
            if "seed" in one.arguments:
                assert two.arguments["seed"] == one.arguments["seed"] + 10**6
                assert {**two.arguments, "seed": 0} == {**one.arguments, "seed": 0} and two.key != one.key
                shared += 1
            else:
                assert two == one  # theory is no draw: it is reused
    assert shared > 0


def test_bad_seed():
    with pytest.raises(ValueError, match="seed must be"):
        get_studies(["fig1"])[0].reseeded(-1)
