"""Percentiles of measurements some of which are infinite, over several runs, and how sure they are."""

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95


def percentile(values: np.ndarray, part: float) -> np.ndarray:
    """[..., n] -> [...]: a measured value along the last axis, the higher neighbour of the place `part` (0 to 1).

    NaN is what was not measured and is left out; infinite values count. NaN where nothing is left.
    """
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN comes last
    count = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    place = np.ceil(part * (count - 1) - 1e-9).astype(int)
    return np.take_along_axis(ordered, np.maximum(place, 0), axis=-1)[..., 0]


def over_runs(values: np.ndarray, part: float) -> float:
    """[runs, n]: the median of the runs' percentiles."""
    return float(np.median(percentile(values, part), axis=0))


def interval(values: np.ndarray, part: float, seed: int = 0) -> tuple[float, float]:
    """[runs, n]: the percentile bootstrap's interval (LEVEL) of `over_runs`, the same for the same seed.

    What is drawn again are the n utterances, each with its results in all runs (Efron and Tibshirani, An Introduction
    to the Bootstrap, 1993, chapter 13). Resamples without any measured value are left out; NaN if all are.
    """
    count = values.shape[1]
    if count == 0:
        return np.nan, np.nan
    drawn = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))
    found = np.median(percentile(values[:, drawn], part), axis=0)
    low, high = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    return float(percentile(found, low)), float(percentile(found, high))
