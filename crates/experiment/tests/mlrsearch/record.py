#!/usr/bin/env python3
"""Records searches of the MLRsearch library (PyPI: MLRsearch) for tests/mlrsearch.rs.

    pip install MLRsearch==1.2.1 && ./record.py > searches.json

Each search has a server of a known capacity with random loss and stalls; what is kept is the configuration,
every trial in order, and the results.
"""
import json
import random

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal


class Server(AbstractMeasurer):
    """A server that answers `capacity` queries a second, and loses a burst when its host stalls."""

    def __init__(self, rng, capacity, stall_chance, spread):
        self.rng, self.capacity, self.stall_chance, self.spread = rng, capacity, stall_chance, spread
        self.trials = []

    def measure(self, intended_duration, intended_load):
        capacity = self.capacity * self.rng.gauss(1.0, self.spread)
        count = max(1, round(intended_load * intended_duration))
        lost = max(0, count - int(capacity * intended_duration))
        if self.rng.random() < self.stall_chance * intended_duration:
            lost += int(intended_load * self.rng.expovariate(1 / 0.005))
        lost = min(lost, count)
        spent = intended_duration * (1.0 + 0.1 * self.rng.random())
        result = MeasurementResult(
            intended_duration=intended_duration, intended_load=intended_load,
            offered_count=count, loss_count=lost, duration_with_overheads=spent)
        self.trials.append([intended_load, intended_duration, result.loss_ratio, spent])
        return result


def goal(**changes):
    return SearchGoal(**({"fail_fast": False} | changes))


GOALS = [
    [goal()],
    [goal(), goal(loss_ratio=0.005)],
    [goal(loss_ratio=0.005, relative_width=0.05, duration_sum=5.0)],
    [goal(exceed_ratio=0.0, initial_trial_duration=1.0, final_trial_duration=5.0, duration_sum=5.0)],
    [goal(loss_ratio=0.1, preceding_targets=4, expansion_coefficient=4), goal(relative_width=0.01), goal(loss_ratio=0.001, exceed_ratio=0.25)],
]


def search(seed):
    rng = random.Random(seed)
    goals = GOALS[seed % len(GOALS)]
    low, high = 10 ** rng.uniform(2, 3.5), 10 ** rng.uniform(5, 6.5)
    capacity = 10 ** rng.uniform(2, 6.7)
    server = Server(rng, capacity, rng.choice([0.0, 0.05, 0.3]), rng.choice([0.0, 0.01, 0.05]))
    config = Config(goals=goals, min_load=low, max_load=high, search_duration_max=1e9, warmup_duration=0.0)
    results = MultipleLossRatioSearch(config).search(server, debug=lambda text: None)
    bound = lambda b: None if b is None else float(b)
    return {
        "min": low, "max": high,
        "goals": [{
            "loss_ratio": g.loss_ratio, "exceed_ratio": g.exceed_ratio, "width": g.relative_width,
            "initial_trial_s": g.initial_trial_duration, "final_trial_s": g.final_trial_duration,
            "duration_sum_s": g.duration_sum, "preceding_targets": g.preceding_targets,
            "expansion": g.expansion_coefficient} for g in goals],
        "trials": server.trials,
        "results": [{
            "lower": bound(results[g].relevant_lower_bound), "upper": bound(results[g].relevant_upper_bound),
            "conditional_throughput": bound(results[g].conditional_throughput)} for g in goals],
    }


def main():
    searches = []
    for seed in range(60):
        try:
            searches.append(search(seed))
        except RuntimeError as error:
            searches.append({"seed": seed, "error": str(error)})
    lines = ",\n".join(json.dumps(s, separators=(",", ":")) for s in searches if "error" not in s)
    print("[\n" + lines + "\n]")
    import sys
    print(len(searches), "searches,", sum("error" in s for s in searches), "failed", file=sys.stderr)


main()
