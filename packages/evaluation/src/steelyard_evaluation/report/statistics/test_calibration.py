"""The calibration error: nothing of perfect systems, the true gap of others, and unbiased."""

import numpy as np
import pytest

from steelyard_evaluation.report.statistics.calibration import Calibration, StatedProbabilities, calibration


def simulated(answers: int, gap: float, seed: int, times: int = 1) -> Calibration:
    """Answers of a system whose answers come true less often by `gap` than it says, each asked so many times."""
    chance = np.random.default_rng(seed)
    confidence = np.repeat(chance.uniform(0.5, 1, answers), times)
    correct = chance.random(answers * times) < confidence - gap
    clusters = np.repeat(np.arange(answers), times)
    return calibration(StatedProbabilities(confidence, correct, np.zeros(answers * times), clusters), bins=10)


def test_a_perfectly_calibrated_system_reads_about_nothing() -> None:
    """The plain error reads 2.2 % of 1,000 answers; the squares of ours are 0 on average."""
    drawn = [simulated(1000, 0.0, seed) for seed in range(200)]
    assert np.mean([row.plug_in for row in drawn]) > 0.02
    assert np.mean([row.plug_in_of_chance for row in drawn]) == pytest.approx(0.022, abs=0.002)
    assert np.mean([row.error.value == 0 for row in drawn]) > 0.5


def test_the_square_is_unbiased() -> None:
    drawn = [simulated(300, 0.15, seed, times=2).error.value or 0.0 for seed in range(200)]
    assert np.mean(np.square(drawn)) == pytest.approx(0.15**2, rel=0.05)


@pytest.mark.parametrize(("answers", "times"), [(40, 1), (2000, 1), (400, 5)])
def test_a_calibration_error_has_no_interval(answers: int, times: int) -> None:
    error = simulated(answers, 0.1, 1, times).error
    assert (error.low, error.high) == (None, None)
    assert error.method.startswith("no interval: bins of few answers may hide a gap")
