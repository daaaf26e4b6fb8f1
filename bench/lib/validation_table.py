# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What bench/plan_validation found, as the page docs/plan-validation.md."""

import statistics

import validation

MISS = 0.01
LIMITS = (0.005, 0.01, 0.05)

HEAD = """# Predicted against published GPU memory

Peaks that others measured on real GPUs and published, next to what the simulated GPU ([simcuda](../simcuda/README.md)) predicts for the same
configuration. The unmodified PyTorch wheel and its own caching allocator run; kernels compute nothing. **We measured nothing here on a GPU.** Weights and
data are random, with the right shapes. A prediction holds for the installed libraries ({versions}), not for those that
a source used, unless the case's file names a library in a version of the source's time (litgpt, liger-kernel, torchtune, torchao, timm, and transformers
in some). Each case does what the source's script does. Rows are chosen before our number for them is known, nothing is fitted to a number, and a miss
stays in the table. Where a first run was off because our program did something else than the source's, the source's note says what was mended.
*Published* has the digits of the source. There are no convolutional or recurrent nets: what cuDNN allocates for those is not modelled
([workspaces.md](workspaces.md)).

Each case is started as users start theirs, by `gpumemshim plan --json --steps all`. `bench/plan_validation` repeats it in about {minutes} minutes on two
cores. It wrote this page on {date}. The cases are in [bench/plan_validation_cases](../bench/plan_validation_cases).

**Median of the absolute errors: {median}** over {count} measurements from {sources} published pages of {projects} projects.

| within | measurements | share |
|---|---:|---:|
{within}
**The printed range held in {held} of {ranges}**. A plan prints a range for nvidia-smi's number; it holds where the published number, which is mostly PyTorch's,
differs from the predicted one by no more than the range leaves. Its median width is {width} of the likely need, most of it the size of CUDA's context, which is a
guess (256 MiB to 1 GiB) and not in PyTorch's numbers. Without the context's part, which is the stricter question, the range held in {strict} of
{ranges}: as a plan calls what PyTorch allocates exact for the installed version, that is only where the published digits agree.{open}

{by_source}"""

LEFT_OUT = """
## Measurements that are no rows

- [PEFT's comparison of methods](https://github.com/huggingface/peft/tree/main/method_comparison/MetaMathQA) on MetaMathQA (Llama-3.2-3B, batch 4, L40S):
  the longest text decides what is reserved, and the texts are not here. With batches of 636 tokens at most the program needs 36,954 MiB for full
  fine-tuning (-0.3 % of the 37,068 published) and 20,926 MiB for LoRA r 32 (-1.6 % of 21,260); with 652 tokens 37,298 MiB (+0.6 %) and 21,474 MiB
  (+1.0 %). One length explains both within 1.6 %, but it is fitted, so neither is a row.
- torchvision's detection models (2019, 5.2 GB for Faster R-CNN): not explained. The number of proposals depends on values, and the convolutions'
  workspaces are not known.
"""

COLUMNS = "| source | configuration | GPU | torch of the source | metric | published | predicted | error | range held | its width |\n|---|---|---|---|---|---:|---:|---:|---|---:|\n"


def value(number, case):
    return f"{number:,.{min(4, case.digits)}f} {case.unit}"


def error(result):
    return "failed" if result.error is None else f"{100 * result.error:+.2f} %"


def range_cells(result):
    """Whether the printed range held, and how wide it was."""
    if result.held() is None:
        return ("-", "-")
    held = "no" if not result.held() else "yes" if result.held(without_context=True) else "by the context"
    return (held, f"{100 * result.range.width:.0f} %" if result.range.bounded else "no end")


def row(result):
    case = result.case
    predicted = "-" if result.predicted is None else value(result.predicted, case)
    cells = (case.source.name, case.what, case.gpu.name.removeprefix("NVIDIA "), case.torch, validation.METRICS[case.metric], value(case.published, case), predicted, error(result), *range_cells(result))
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


def shares(errors, count):
    """A row for each of three limits."""
    return "".join(f"| {100 * limit:g} % | {sum(each <= limit for each in errors)} | {100 * sum(each <= limit for each in errors) / count:.0f} % |\n" for limit in LIMITS)


def open_ends(count):
    return f" Of {count} the upper end is open (a value that is not computed decides something): there only the lower end can fail." if count else ""


def head(results, date, versions):
    errors = [abs(result.error) for result in results if result.error is not None]
    with_range = [result for result in results if result.held() is not None]
    widths = [result.range.width for result in with_range if result.range.bounded]
    return HEAD.format(
        date=date,
        versions=versions,
        minutes=max(1, round(sum(result.seconds for result in results) / 60)),
        median=percent(validation.median_error(results)),
        by_source=by_source(results),
        count=len(results),
        sources=len({result.case.source for result in results}),
        projects=len({result.case.source.project for result in results}),
        within=shares(errors, len(results)),
        held=sum(result.held() for result in with_range),
        strict=sum(result.held(without_context=True) for result in with_range),
        ranges=len(with_range),
        width=f"{100 * statistics.median(widths):.0f} %" if widths else "-",
        open=open_ends(sum(not result.range.bounded for result in with_range)),
    )


def sources(results):
    for source in dict.fromkeys(result.case.source for result in results):
        yield f"- **[{source.name}]({source.address})**: {source.what}.{' ' + source.note if source.note else ''}\n"


def render(results, date, versions):
    parts = [head(results, date, versions), "\n## The table\n\n", COLUMNS, *map(row, results)]
    missed = misses(results)
    parts += ["\n## Misses of more than 1 %, and why\n\n", *(map(miss, missed) if missed else ["None.\n"])]
    parts += [LEFT_OUT, "\n## Sources\n\n", *sources(results)]
    return "".join(parts)
