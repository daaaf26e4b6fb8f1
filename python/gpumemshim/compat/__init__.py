# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The calls of five other memory tools, with exact numbers beneath. Code that was written for one of them runs with another import line:

    from memoryCheck import GPUMemoryProfiler                     from gpumemshim.compat.memoryCheck import GPUMemoryProfiler
    from utils.loraTrain.quickMemoryDebug import memory_snapshot  from gpumemshim.compat.quickMemoryDebug import memory_snapshot
    from utils.loraTrain.memoryDebugger import ...                from gpumemshim.compat.memoryDebugger import ...
    from utils.loraTrain.trainWithMemoryDebug import ...          from gpumemshim.compat.trainWithMemoryDebug import ...
    from detailed_memory_profiler import EnhancedMemoryProfiler   from gpumemshim.compat.detailed_memory_profiler import EnhancedMemoryProfiler
    from tools.memory import MemoryDebugger                       from gpumemshim.compat.memory import MemoryDebugger
    python -m tools.memory oom --threshold 85                     python -m gpumemshim.compat.memory oom --threshold 85
    probing $ENDPOINT query "SELECT ..."                          python -m gpumemshim.compat.probing $ENDPOINT query "SELECT ..."

Names, keys, file names and texts are those of the tools, Chinese included. What differs: nothing is sampled, peaks are those between two calls too, and each
call leaves a mark in the trace where the recorder is loaded, so `gpumemshim html` shows it. docs/compat.md lists every call.
"""
