# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What the first screen is to say of each program of this folder (tests/e2e/bugs_test.py). Programs 01 to 33 are after public reports, whose numbers stand in `reports`; c1 to c9 are sound ones
that look like them, and m01 to m11 one fault each.

`line`: texts of lines of the program, one of which is named by its number; or, where `owner` says so, the variable that keeps the memory. `says`, `never`: patterns. `mend`: what is replaced by what, or
the name of a remedy of tests/e2e/claims/mended.py; the peak of a run of the mended program is the one that is claimed, of `saves` bytes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Truth:
    line: tuple = ()
    says: str = ""
    never: str = r"expandable_segments|checkpoint\)"
    owner: str = ""
    mend: tuple | str = ()
    saves: str = ""  # "allocated", "reserved"
    reports: str = ""
    capacity_mb: int = 0
    arguments: tuple = ()
    devices: int = 1
    prepares: bool = False
    sound: bool = False


TRUTHS = {
    "01_ctx_output": Truth(("ctx.gate = gate", "gate = torch.sigmoid(x)"), "GROWING.*kept by.*(FusedSwishBackward|cycle)", reports="pytorch#25340, sru#171, RevTorch#1"),
    "02_create_graph": Truth(("loss.backward(create_graph=True)", "def make_learner"), r"GROWING.*create_graph=True.*(set \.grad to None|autograd\.grad)", reports="pytorch#7343, pytorch#4661", owner="make_learner"),
    "03_new_stream_each_sync": Truth(("stream = torch.cuda.Stream()",), "GROWING.*make one CUDA stream", mend="one_stream", saves="reserved", reports="vllm#52950, timm#2781"),
    "04_anchor_cache": Truth(("self._cache[",), "GROWING.*kept by", owner="_cache", reports="vision#1689, vision#1657"),
    "06_epoch_outputs": Truth(("epoch_output.append(out)", '"preds": logits'), "keep it on the CPU", mend=("epoch_output.append(out)", 'epoch_output.append({"loss": out["loss"]})'), saves="allocated",
                              reports="lightning#4556, lightning#8453, lightning#16520"),
    "07_results_list": Truth(("return list(",), "GROWING.*kept by", owner="results", reports="ultralytics#636, ultralytics#3983"),
    "08_replay_on_gpu": Truth(("self.items.append(trajectory)",), "GROWING.*kept by", owner="items", reports="recursionpharma/gflownet#130"),
    "10_gc_disabled": Truth(("self.done = self.finish", "self.obs = storage"), r"GROWING.*cycle of references.*gc\.disable", reports="GR00T-WholeBodyControl#220, pytorch#50185, torchforge#209"),
    "12_foreach_peak": Truth(("optimizer.step()",), "fused=True", mend="foreach_temporaries", saves="allocated", reports="pytorch#97712, torchtune#389, lit-llama#389"),
    "13_resume_on_gpu": Truth(("state = torch.load(path)",), "map_location", mend=("torch.load(path)", 'torch.load(path, map_location="cpu")'), saves="allocated", reports="FastWAM#20, stylegan2-pytorch#36, timm#72"),
    "14_grads_in_forward": Truth(("model(batch)", "optimizer.zero_grad()"), r"zero_grad\(\) before the forward pass", mend="gradients_in_forward", saves="allocated", reports="nanoGPT#71, detectron2#4905"),
    "16_prefill_logits": Truth(("logits = self.lm_head(x)", "logits = logits.float()"), "only the part that is used", mend=("self.lm_head(x)", "self.lm_head(x[:, -1:])"), saves="allocated",
                               reports="transformers#30860, trl#2683"),
    "17_eval_concat": Truth(("torch.cat([old, new])",), "move each result to the CPU", never=r"checkpoint\)", mend=(("torch.cat([old, new])", "torch.cat([old, new.cpu()])"), ("new if old is None", "new.cpu() if old is None")),
                            saves="allocated", reports="transformers#7232, transformers#12878"),
    "19_graphs_small_first": Truth((), "capture the CUDA graphs of a pool with the largest one first", mend=("for batch in BATCHES:", "for batch in reversed(BATCHES):"), saves="reserved",
                                   reports="tokenspeed#1065, TensorRT-LLM#3116"),
    "20_pinned_power_of_two": Truth(("pin_memory=True",), "pinned.*power of two", reports="pytorch#95823, LMCache#1147, vllm#56410"),
    "21_load_onto_gpu0": Truth(("checkpoint = torch.load(path)",), "GPU 0.*map_location", reports="lightning#19219, stylegan2-pytorch#36", devices=2, prepares=True),
    "27_metric_not_reset": Truth(("metric.update(",), "GROWING.*kept by", owner="metric", reports="torchmetrics#482, torchmetrics#1160"),
    "29_two_pools": Truth(("base = ", "cudaMalloc"), "OUT OF MEMORY.*leaks", owner="ArrayPool.malloc", capacity_mb=6144, reports="rmm#501, fbpic#435"),
    "30_densify": Truth((".detach()[:extra]", "colour = "), "expandable_segments:True would reserve", never="GROWING.*line[s]? keep", mend="expandable_segments", saves="reserved",
                        reports="nerfstudio#2709, fvdb-reality-capture#84"),
    "32_batch_finder": Truth(("failures.append",), r"OUT OF MEMORY.*str\(error\).*__traceback__", owner="failures", capacity_mb=3072, reports="pytorch#27600, pytorch#18853"),
    "33_engine_buffers": Truth(("self.slots[i % 2] = out.square()",), "let go of it before the next forward pass", reports="DeeperSpeed#66", saves="allocated",
                               mend=("            loss.backward()\n", "            loss.backward()\n            self.slots[i % 2] = None\n")),
    "c1_lengths": Truth(sound=True, reports="pytorch#122781"),
    "c2_second_step": Truth(sound=True, reports="recap#2, pytorch#1509, pytorch#18643"),
    "c4_benchmark_mode": Truth(sound=True, reports="pytorch#15872, deeplab-pytorch#74"),
    "c5_saw": Truth(sound=True, reports="pytorch#50185"),
    "c6_host_only": Truth(sound=True, reports="wandb#2644, pytorch#20275"),
    "c9_bounded_replay": Truth(sound=True, reports="gflownet#130, with a bound"),
    "m01_float_is_blamed": Truth(("# TRUTH",), "GROWING.*kept by", never="scores", owner="registry"),
    "m01b_float_is_blamed_hidden_keeper": Truth(("# TRUTH",), "GROWING.*kept by", never="scores", owner="engine.held"),
    "m02_bounded_window_is_a_leak": Truth(sound=True),
    "m03_stream_each_call": Truth(("# TRUTH",), "GROWING.*make one CUDA stream", mend="one_stream", saves="reserved"),
    "m05_steps_of_a_second_optimizer": Truth(says="20", sound=True),
    "m06_forecast_sees_pytorch_only": Truth(("# TRUTH",), "OUT OF MEMORY.*beside PyTorch.*leaks", capacity_mb=4096),
    "m07_cat_in_an_evaluation": Truth(("# TRUTH",), "move each result to the CPU", never=r"checkpoint\)", mend=("logits if preds is None else torch.cat([preds, logits])",
                                      "logits.cpu() if preds is None else torch.cat([preds, logits.cpu()])"), saves="allocated"),
    "m08_exception_keeps_the_batch": Truth(("# TRUTH",), r"OUT OF MEMORY.*str\(error\).*__traceback__", owner="errors", capacity_mb=2560),
    "m09_inference_out_of_memory": Truth(("# TRUTH",), "OUT OF MEMORY", never=r"smaller batch|checkpoint|expandable", capacity_mb=5120),
    "m10_diff_of_reserved": Truth(("torch.cuda.Stream() if",), "GROWING.*make one CUDA stream", arguments=("new",), mend="one_stream", saves="reserved"),
    "m11_method_named_update": Truth(("# TRUTH", "self.me = self"), r"GROWING.*cycle of references.*gc\.disable", never="graphs stay"),
}
