# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs cells in an IPython shell, as a notebook does, and prints what each showed: `{cell: [[mime types, text], ...], ...}` as a JSON line."""

import io
import json
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

CELLS = {
    "load": "%load_ext gpumemshim\nimport torch, gc",
    "train": "%%gpumemshim -r trained\nkept = torch.empty(16 << 20, dtype=torch.uint8, device='cuda')\nbig = torch.empty(64 << 20, dtype=torch.uint8, device='cuda')\ndel big\n40 + 2",
    "sizes": "print(trained.start_bytes, trained.peak_bytes, trained.end_bytes)",
    "line": "%gpumemshim -q -r one more = torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\nprint(one.grown_bytes)",
    "error": "%%gpumemshim\nmissing",
    "hidden": "%%gpumemshim\n43;",
    "usage": "%gpumemshim",
    "syntax": "%%gpumemshim\nfor",
    "older": "%%gpumemshim\nagain = torch.empty(2 << 20, dtype=torch.uint8, device='cuda')",
    "picture": "display(trained.picture())",
    "lines": "trained.peak().lines[0]['line']",
}


def main():
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shown = {}
    for name, source in CELLS.items():
        with capture_output() as captured:
            result = shell.run_cell(source, store_history=True)
        outputs = [[sorted(each.data), each.data.get("text/plain", ""), each.data.get("text/html", "")] for each in captured.outputs]
        error = result.error_in_exec or result.error_before_exec
        shown[name] = {"outputs": outputs, "printed": captured.stdout, "error": type(error).__name__ if error else "", "value": repr(result.result) if not isinstance(result.result, io.IOBase) else ""}
    print(json.dumps(shown))
    return 0


sys.exit(main())
