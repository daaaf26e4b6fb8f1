# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Whether tests of others end with the recorder as they end without it.

    found = same_outcomes.compare(run, ["test_os", "test_signal"])
    same_outcomes.report(found)          # prints what differs; True where nothing does

`run(name, recorded)` returns {test: outcome} of one module or group. Some tests of others depend on the moment: what differs is run again, both ways, up
to TRIES times. A test differs where no outcome with the recorder is one that it had without; where some are, or where it has several without, it is
unsteady, which is printed and no fault of ours.
"""

import collections
import dataclasses

TRIES = 3


@dataclasses.dataclass
class Compared:
    name: str
    outcomes: dict  # without the recorder
    differing: dict  # test -> (outcomes without, outcomes with)
    unsteady: list  # that differ without the recorder, too


def union(runs):
    """test -> the set of its outcomes."""
    found = collections.defaultdict(set)
    names = set().union(*runs)
    for run in runs:
        for name in names:
            found[name].add(run.get(name, "not run"))
    return found


def compare_one(run, name):
    bare, recorded = [run(name, False)], [run(name, True)]
    while bare[0] != recorded[0] and len(bare) < TRIES:
        bare.append(run(name, False))
        recorded.append(run(name, True))
    without, with_us = union(bare), union(recorded)
    differing, unsteady = {}, []
    for test in set(without) | set(with_us):
        expected, seen = without.get(test, {"not run"}), with_us.get(test, {"not run"})
        if seen <= expected:
            continue
        (unsteady.append(test) if len(expected) > 1 or seen & expected else differing.update({test: (sorted(expected), sorted(seen))}))
    return Compared(name, bare[0], differing, sorted(unsteady))


def compare(run, names):
    return [compare_one(run, name) for name in names]


def report(found):
    for each in found:
        counts = collections.Counter(each.outcomes.values())
        print(f"  {each.name}: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}; {len(each.differing)} differ, {len(each.unsteady)} unsteady", flush=True)
        for test, (without, with_us) in sorted(each.differing.items()):
            print(f"    {test}: {', '.join(without)} without the recorder, {', '.join(with_us)} with it")
        for test in each.unsteady:
            print(f"    {test}: now so, now otherwise")
    total = sum(len(each.outcomes) for each in found)
    print(f"{len(found)} groups, {total} tests, {sum(len(each.differing) for each in found)} differ")
    return total > 0 and not any(each.differing for each in found)
