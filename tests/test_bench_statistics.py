import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent / "bench"))

from intervals import interval, over_runs, percentile

INF, NAN = np.inf, np.nan


def test_a_percentile_is_a_measured_value_the_higher_of_two_neighbours():
    values = np.array([40.0, 10.0, 30.0, 20.0])
    assert [percentile(values, part) for part in (0.0, 0.5, 0.95, 1.0)] == [10.0, 30.0, 40.0, 40.0]


def test_what_was_not_measured_is_left_out_and_what_never_came_counts_as_infinite():
    assert percentile(np.array([NAN, 10.0, NAN, 20.0, 30.0]), 0.5) == 20.0
    assert percentile(np.array([10.0, INF, INF]), 0.5) == INF
    assert percentile(np.array([INF, NAN, 10.0, 20.0]), 0.5) == 20.0
    assert np.isnan(percentile(np.array([NAN, NAN]), 0.5))
    assert np.isnan(percentile(np.zeros((2, 0)), 0.5)).all()


def test_over_several_runs_the_middle_run_counts_not_the_pooled_values():
    runs = np.array([[1.0, 1.0, 1.0], [9.0, 9.0, 9.0], [5.0, 6.0, 7.0]])
    assert over_runs(runs, 0.5) == 6.0
    assert over_runs(runs, 1.0) == 7.0


def test_an_interval_covers_the_true_median_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(100):
        low, high = interval(rng.normal(250.0, 40.0, (1, 60)), 0.5, seed)
        covered += low <= 250.0 <= high
    assert 88 <= covered <= 99  # 95 of 100, give or take three deviations


def test_an_interval_is_the_same_for_the_same_seed_and_narrower_with_more_utterances():
    values = np.random.default_rng(1).exponential(100.0, (1, 1600))
    assert interval(values[:, :100], 0.5, 3) == interval(values[:, :100], 0.5, 3)
    few, many = (np.subtract(*interval(values[:, :count], 0.5)[::-1]) for count in (100, 1600))
    assert many == pytest.approx(few / 4, rel=0.5)  # a sixteenfold sample


def test_runs_of_the_same_utterances_are_drawn_together():
    # Each run holds the same values: three of them are no better known than one.
    values = np.random.default_rng(2).exponential(100.0, (1, 80))
    assert interval(np.repeat(values, 3, axis=0), 0.5, 7) == interval(values, 0.5, 7)


def test_one_bad_run_of_three_does_not_move_an_interval():
    values = np.random.default_rng(2).exponential(100.0, (1, 80))
    for bad in range(3):
        runs = np.repeat(values, 3, axis=0)
        runs[bad] += 1000.0
        assert interval(runs, 0.5, 7) == interval(values, 0.5, 7)


def test_an_interval_reaches_to_infinity_where_many_were_never_answered():
    low, high = interval(np.array([[100.0] * 11 + [INF] * 9]), 0.5)
    assert low == 100.0 and high == INF
    assert np.isnan(interval(np.zeros((1, 0)), 0.5)).all()
