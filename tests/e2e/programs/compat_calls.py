# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Makes the documented calls of one of the other memory tools (gpumemshim.compat), and prints as its last line what they answered and what PyTorch counted.

    compat_calls.py memoryCheck|quick|debugger|training|usage|detailed|memory
"""

import json
import sys
import time

import torch

MB = 1 << 20
kept = []


def mib(count):
    return torch.empty(count * MB, dtype=torch.uint8, device="cuda")


def counted():
    return [torch.cuda.memory_allocated() / MB, torch.cuda.memory_reserved() / MB, torch.cuda.max_memory_allocated() / MB]


class Model(torch.nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, width)
        self.lm_head = torch.nn.Linear(width, 1000)

    def forward(self, input_ids, labels):
        return torch.nn.functional.cross_entropy(self.lm_head(self.embed(input_ids)).flatten(0, 1), labels.flatten())


def batches():
    return [torch.randint(0, 1000, (4, 32)) for _ in range(3)]


def memory_check():
    from gpumemshim.compat.memoryCheck import GPUMemoryProfiler

    profiler = GPUMemoryProfiler(log_dir="logs/my_training", enable_file_logging=True)
    profiler.record("训练开始")
    tensor = mib(128)
    profiler.record_detailed("模型创建", tensor_info={"input": tensor}, model_info={"total_params": 1000000, "trainable_params": 1000000})
    known = counted()
    mib(64)
    profiler.record("前向传播", "loss=0.1234")
    profiler.print_report()
    summary, path = profiler.generate_summary_report(), profiler.save_to_json()
    log = profiler.log_file
    profiler.cleanup()
    return {"known": known, "after": counted(), "summary": summary, "json": json.load(open(path, encoding="utf-8")), "path": path, "log": open(log, encoding="utf-8").read()}


def quick():
    from gpumemshim.compat.quickMemoryDebug import analyze_model, check_memory_status, cleanup_memory, compare_snapshots, generate_report, memory_snapshot, monitor_function

    first = memory_snapshot("training_start")
    model = Model()  # on the CPU: simulated CUDA computes no values
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float("nan")
    analysis = analyze_model(model, "lora_model")
    model = model.cuda()
    result, comparison = monitor_function(mib, 128)
    last = memory_snapshot("after_training")
    answer = {"analysis": analysis, "comparison": comparison, "last": last, "compared": compare_snapshots(first, last), "known": counted(), "warned": check_memory_status(threshold_mb=100.0)}
    try:
        monitor_function(lambda: 1 / 0)
    except ZeroDivisionError as error:
        answer["raised"] = str(error)
    size = result.numel()
    del result
    return {**answer, "size": size, "cleaned": cleanup_memory(), "report": generate_report()}


def debugger():
    from gpumemshim.compat.memoryDebugger import create_memory_debugger, debug_model_memory, monitor_training_memory

    with create_memory_debugger(log_dir="logs/memory_debug", enable_real_time=True) as one:
        one.create_memory_checkpoint("start", model=Model())
        kept.append(mib(120))
        mib(300)
        one.create_memory_checkpoint("after_problem", model=Model(128))
        compared = one.compare_checkpoints("start", "after_problem")
        missing = one.compare_checkpoints("start", "no such")
    highest = max(gpu["allocated_mb"] for each in one.memory_history for gpu in each["gpu_memory"])
    one.memory_history = one.memory_history[-500:]
    one.start_real_time_monitoring(interval=0.05)
    kept.append(mib(240))
    live = [max(gpu["allocated_mb"] for each in one.memory_history for gpu in each["gpu_memory"]), one._check_memory_anomalies(threshold_mb=200.0)]
    mib(500)
    time.sleep(0.3)
    kept.pop()
    one.stop_real_time_monitoring()
    later = max(gpu["allocated_mb"] for each in one.memory_history for gpu in each["gpu_memory"])
    log = "".join(open(handler.baseFilename, encoding="utf-8").read() for handler in one.logger.handlers if hasattr(handler, "baseFilename"))
    answer = {"live": live, "warned": log.count("内存增长异常: 240.00 MB"), "compared": compared, "missing": missing, "known": counted(), "highest": highest, "later": later, "anomalies": one._check_memory_anomalies(threshold_mb=100.0)}
    report = one.generate_memory_report(output_file="custom_report.txt")
    analysis = debug_model_memory(Model().cuda(), "model")
    return {**answer, "report": report, "groups": sorted(analysis["parameter_groups"]), "total_mb": analysis["summary"]["total_memory_mb"], "returned": monitor_training_memory(lambda: 42)}


def training():
    from gpumemshim.compat.trainWithMemoryDebug import debug_lora_training, debug_memory_with_different_configs, memory_profiled_training

    with memory_profiled_training(log_dir="logs/stages") as profiler:
        model = profiler.profile_stage("model_creation", lambda: Model().cuda())
        profiler.profile_stage("training", kept.append, mib(8))
        for _ in range(4):
            profiler.profile_stage("step", lambda: kept.append(mib(4)))
        report = profiler.generate_training_report()
    issues = profiler.detect_memory_issues()
    _, results = debug_lora_training(config={"model": Model, "epochs": 1}, dataloader=batches(), precision="fp32", pkg="matplotlib", version="3.8.0", knowledge_type="code", log_dir="logs/training_debug")
    widths = debug_memory_with_different_configs({"lr": 0.1}, {"small": {"width": 8}, "large": {"width": 256}}, create_model=lambda config: Model(config["width"]).cuda())
    best = min(widths.items(), key=lambda row: row[1]["memory_mb"])
    parameters = sum(each.numel() * each.element_size() for each in model.parameters()) / MB
    answer = {"model_mb": parameters, "creation_mb": results["creation_analysis"]["summary"]["total_memory_mb"], "training_mb": results["training_analysis"]["summary"]["total_memory_mb"]}
    stages = [[each["stage"], each["memory_comparison"]["gpu_memory_diff"][0]["allocated_diff_mb"]] for each in profiler.training_stages]
    return {**answer, "stages": stages, "report": report, "issues": issues, "keys": sorted(results), "best": best[0], "best_mb": best[1]["memory_mb"]}


def usage():
    """The four levels of the command, each with its answer's file and what PyTorch counted before and behind it."""
    import pathlib

    from gpumemshim.compat.debug_memory_usage import main

    answer = {}
    for level in ("model_only", "full", "custom", "comparison"):
        before = counted()
        words = ["--debug_level", level, "--pkg", "matplotlib", "--version", "3.8.0", "--precision", "fp32", "--setup", str(pathlib.Path(__file__).with_name("compat_setup.py")), "--output", f"{level}.json"]
        code = main(words)
        answer[level] = {"code": code, "before": before, "after": counted(), "file": json.load(open(f"{level}.json", encoding="utf-8"))}
    return {**answer, "no_model": main(["--debug_level", "model_only"]), "blocks_mb": (64000 * 4 + 64000 * 4 + 4096) / MB}  # of 512 B: 1,000 floats take 4,096 bytes


def detailed():
    from gpumemshim.compat.detailed_memory_profiler import EnhancedMemoryProfiler, print_memory_breakdown

    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    profiler = EnhancedMemoryProfiler(model)
    profiler.register_component_hooks()
    profiler.take_snapshot("1_before")
    ids = batches()[0].cuda()
    model(ids, ids).backward()
    optimizer.step()
    profiler.take_snapshot("2_after_step")
    known = counted()
    breakdown = profiler.get_detailed_breakdown(optimizer)
    print_memory_breakdown(breakdown)
    results = profiler.save_results("detailed_memory_results.json", optimizer)
    profiler.clear_hooks()
    parameters = sum(each.numel() * 4 for each in model.parameters()) / MB
    return {"known": known, "breakdown": breakdown, "parameters_mb": parameters, "snapshots": results["snapshots"], "file": json.load(open("detailed_memory_results.json", encoding="utf-8"))["breakdown"]}


def memory():
    from gpumemshim.compat.memory import MemoryDebugger, MemoryProfiler, OOMDetector

    debugger = MemoryDebugger()
    debugger.start_monitoring()
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for ids in batches() * 8:
        ids = ids.cuda()
        model(ids, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(mib(20))
    debugger.stop_monitoring()
    status, reserved = debugger.get_status_report(), torch.cuda.memory_reserved()
    leaks = debugger.leak_detector.leak_events
    healthy = MemoryDebugger()
    healthy.start_monitoring()
    large = torch.nn.Linear(4096, 8192).cuda()  # 128 MB, and as much again as gradients: needed, not leaked
    for _ in range(24):
        large(torch.ones(8, 4096, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        large.zero_grad(set_to_none=True)
    healthy.stop_monitoring()
    healthy_leaks = healthy.get_status_report()["recent_leaks"]
    profiler = MemoryProfiler(sampling_interval=0.1)
    profiler.start_monitoring()
    mib(512)
    highest = torch.cuda.memory_reserved()
    profiler.stop_monitoring()
    report = profiler.generate_report("memory_report.json")
    foretold = leak_until_warned(OOMDetector, model, optimizer)
    warned = []
    detector = OOMDetector(threshold=85.0, warning_callback=warned.append)
    detector.start_monitoring()
    full = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.99) // MB * MB, dtype=torch.uint8, device="cuda")
    detector.stop_monitoring()
    usage = [each.current_usage for each in warned]
    answer = {"status": status, "reserved": reserved, "leaks": [[each.leaked_memory, each.severity, each.potential_sources] for each in leaks], "report": report, "highest": highest}
    return {**answer, "warned": [each.risk_level.value for each in warned], "usage": usage, "full": full.numel(), "foretold": foretold, "healthy_leaks": healthy_leaks}


def leak_until_warned(detector_class, model, optimizer):
    """[[level, seconds, confidence, cause], ...] of a training that fills nine tenths of its GPU. The callback then hangs: nobody waits for it."""
    import torch

    heard, kept, size = [], [], int(torch.cuda.mem_get_info()[0] * 0.0075)

    def hangs(prediction):
        heard.append([prediction.risk_level.value, prediction.predicted_oom_time, prediction.confidence, prediction.cause])
        time.sleep(3600)

    detector = detector_class(warning_callback=hangs)
    detector.start_monitoring()
    for ids in batches() * 40:
        ids = ids.cuda()
        model(ids, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    until = time.monotonic() + 60
    while not heard and time.monotonic() < until:
        time.sleep(0.05)
    detector.stop_monitoring()
    return heard


if __name__ == "__main__":
    calls = {"memoryCheck": memory_check, "quick": quick, "debugger": debugger, "training": training, "usage": usage, "detailed": detailed, "memory": memory}
    answer = calls[sys.argv[1]]()
    print(json.dumps(answer))
