# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What bench/plan_validation found, as the page docs/plan-validation.md."""

import validation

MISS = 0.01

HEAD = """# Predicted against published GPU memory

Peaks that others measured on real GPUs and published, next to what the simulated GPU ([simcuda](../simcuda/README.md)) predicts for the same
configuration. The unmodified PyTorch wheel and its own caching allocator run; kernels compute nothing. **We measured nothing here on a GPU.** Weights and
data are random, with the right shapes. A prediction holds for the installed libraries ({versions}), not for those that
a source used, except for litgpt and liger-kernel, which are installed in the versions of their time. Each case does what the source's script does. Nothing
in it is fitted to a number, and a miss stays in the table. *Published* has the digits of the source. There are no convolutional or recurrent nets and no
shapes that depend on data: what libraries allocate for those is not modelled.

`bench/plan_validation` repeats it in about {minutes} minutes on two cores. It wrote this page on {date}. The cases are
in [bench/plan_validation_cases](../bench/plan_validation_cases).

**Median of the absolute errors: {median}** over {count} measurements from {sources} sources; {within} of them within 1 %, {half} within 0.5 %.

{by_source}"""

COLUMNS = "| source | configuration | GPU | torch of the source | metric | published | predicted | error |\n|---|---|---|---|---|---:|---:|---:|\n"


def digits(published):
    """As many as the source gave."""
    text = f"{published:.10g}"
    return len(text.partition(".")[2])


def value(number, case):
    return f"{number:,.{min(4, max(digits(case.published), 2 if case.unit.startswith('G') else 0))}f} {case.unit}"


def error(result):
    return "failed" if result.error is None else f"{100 * result.error:+.2f} %"


def row(result):
    case = result.case
    predicted = "-" if result.predicted is None else value(result.predicted, case)
    cells = (case.source.name, case.what, case.gpu.name.removeprefix("NVIDIA "), case.torch, validation.METRICS[case.metric], value(case.published, case), predicted, error(result))
    return f"| {' | '.join(cells)} |\n"


def misses(results):
    return [result for result in results if result.error is None or abs(result.error) > MISS]


def miss(result):
    reason = result.case.why or "not explained."
    failed = f" ({result.failure})" if result.failure else ""
    return f"- **{result.case.what}** ({result.case.source.name}), {error(result)}{failed}: {reason}\n"


def percent(number):
    return "-" if number is None else f"{100 * number:.2f} %"


def by_source(results):
    """A source with many easy rows must not hide another."""
    lines = ["| source | measurements | median absolute error | largest |\n|---|---:|---:|---:|\n"]
    for source in dict.fromkeys(result.case.source for result in results):
        those = [result for result in results if result.case.source == source]
        largest = max((abs(each.error) for each in those if each.error is not None), default=None)
        lines.append(f"| {source.name} | {len(those)} | {percent(validation.median_error(those))} | {percent(largest)} |\n")
    return "".join(lines)


def head(results, date, versions):
    median = validation.median_error(results)
    errors = [abs(result.error) for result in results if result.error is not None]
    return HEAD.format(
        date=date,
        versions=versions,
        minutes=max(1, round(sum(result.seconds for result in results) / 60)),
        median=percent(median),
        by_source=by_source(results),
        count=len(results),
        sources=len({result.case.source for result in results}),
        within=sum(each <= MISS for each in errors),
        half=sum(each <= 0.005 for each in errors),
    )


def sources(results):
    for source in dict.fromkeys(result.case.source for result in results):
        yield f"- **[{source.name}]({source.address})**: {source.what}.{' ' + source.note if source.note else ''}\n"


def render(results, date, versions):
    parts = [head(results, date, versions), "\n## The table\n\n", COLUMNS, *map(row, results)]
    missed = misses(results)
    parts += ["\n## Misses of more than 1 %, and why\n\n", *(map(miss, missed) if missed else ["None.\n"])]
    parts += ["\n## Sources\n\n", *sources(results)]
    return "".join(parts)
