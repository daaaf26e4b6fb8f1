# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Rows of an answer: a list of dicts that pandas, Arrow, terminals and notebooks can take."""

import html
import re

SHOWN_ROWS = 20
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def human(size):
    """ "1.5 GiB" of bytes, with binary units as `gpumemshim` prints them; "-3 MiB" of fewer than none."""
    value, unit = abs(float(size)), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    number = f"{value:.0f}" if unit == 0 or value >= 100 else f"{value:.3g}"
    return f"{'-' if size < 0 else ''}{number} {UNITS[unit]}"


def duration(nanoseconds):
    """ "1.500 s" of nanoseconds, as `gpumemshim` prints times."""
    if nanoseconds < 1000:
        return f"{nanoseconds:.0f} ns" if nanoseconds else "0 s"
    if nanoseconds < 999_500:
        return f"{nanoseconds / 1e3:.0f} us"
    if nanoseconds < 1e9:
        return f"{nanoseconds / 1e6:.{1 if nanoseconds < 99_950_000 else 0}f} ms"
    if nanoseconds < 100e9:
        return f"{nanoseconds / 1e9:.3f} s"
    seconds = int(nanoseconds / 1e9)
    return f"{seconds // 60} min {seconds % 60:02} s" if seconds < 3600 else f"{seconds // 3600} h {seconds // 60 % 60:02} min"


def parse_size(text):
    """Bytes of "2 GB", "1.5GiB", "512M" or a number. Units are binary, as everywhere in gpumemshim. ValueError for anything else."""
    if isinstance(text, (int, float)) and not isinstance(text, bool) and text >= 0:
        return int(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(?:([KMGT])(?:i?B)?|B)?\s*", str(text), re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r} is not a size. Write it as '2 GB', '512 MiB' or '4096'")
    return int(float(found[1]) * 1024 ** (" KMGT".index((found[2] or " ").upper())))


class Table(list):
    """Rows, each a dict with the same keys. Sizes are in bytes; a key says its unit (`peak_bytes`, `start_ns`); shown, both are as people write them.

        steps = gpumemshim.steps("run.gmtrace")
        max(row["peak_bytes"] for row in steps)
        steps.to_pandas().plot(x="step", y="peak_bytes")
    """

    @property
    def columns(self):
        """The keys, in order."""
        return list(self[0]) if self else []

    def to_pandas(self):
        """A pandas.DataFrame; ImportError without pandas."""
        import pandas

        return pandas.DataFrame(list(self))

    def to_arrow(self):
        """A pyarrow.Table; ImportError without pyarrow."""
        import pyarrow

        return pyarrow.Table.from_pylist(list(self))

    def __str__(self):
        names = self.columns
        cells = [names, *([self.cell(name, row.get(name)) for name in names] for row in self[:SHOWN_ROWS])]
        widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
        lines = ["  ".join(cell.rjust(width) if is_number else cell.ljust(width) for cell, width, is_number in zip(row, widths, self.numbers())).rstrip() for row in cells]
        if len(self) > SHOWN_ROWS:
            lines.append(f"... {len(self) - SHOWN_ROWS:,} more rows")
        return "\n".join(lines) if names else "no rows"

    __repr__ = __str__

    def _repr_html_(self):
        names = self.columns
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = "".join("<tr>" + "".join(self.html_cell(name, row.get(name)) for name in names) + "</tr>" for row in self[:SHOWN_ROWS])
        more = f"<p>{len(self) - SHOWN_ROWS:,} more rows</p>" if len(self) > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}" if names else "<p>no rows</p>"

    def numbers(self):
        return [isinstance(self[0][name], (int, float)) for name in self.columns]

    def html_cell(self, name, value):
        style = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
        return f"<td{style}>{html.escape(self.cell(name, value))}</td>"

    @staticmethod
    def cell(name, value):
        if value is None:
            return "-"
        if name == "bytes" or name.endswith("_bytes"):
            return human(value) if isinstance(value, (int, float)) else str(value)
        if (name == "ns" or name.endswith("_ns")) and isinstance(value, (int, float)) and value >= 0:
            return duration(value)
        if isinstance(value, float):
            return f"{value:.6g}"
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
