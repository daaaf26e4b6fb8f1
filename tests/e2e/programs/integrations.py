# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Small trainings whose GPU memory goes into the tools that people log to, and as a JSON line what those then have and what PyTorch counted.

    integrations.py sinks|transformers|lightning|accelerate
"""

import json
import os
import pathlib
import sys
import types

import torch

MB = 1 << 20
kept = []


def spike(step):
    """Twice as much at once in step 4, and 1 MiB more is kept each step."""
    kept.append(torch.empty(MB, dtype=torch.uint8, device="cuda"))
    torch.empty((64 if step == 4 else 16) * MB, dtype=torch.uint8, device="cuda")


def wandb_run():
    """In place of a run, which would want its service: what a sink says to it."""
    said = []
    run = types.SimpleNamespace(define_metric=lambda *names, **options: said.append(["define", *names, options]), log=lambda row: said.append(["log", row]))
    return run, said


def sinks():
    import mlflow as mlflow_package
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from gpumemshim.integrations import StepScalars, mlflow, open_telemetry, tensorboard, wandb

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # the database would need SQLAlchemy
    mlflow_package.set_tracking_uri(pathlib.Path("mlruns").absolute().as_uri())
    reader, rows = InMemoryMetricReader(), []
    run, said = wandb_run()

    def broken(step, scalars):
        raise ValueError("a sink's own")

    with mlflow_package.start_run() as active:
        into = [tensorboard("board"), mlflow(), open_telemetry(MeterProvider([reader])), wandb(run), broken, lambda step, scalars: rows.append([step, scalars])]
        truths = {}
        with StepScalars(every=1, to=into) as memory:
            for step in range(1, 7):
                spike(step)
                memory.step(step)
                truths[step] = torch.cuda.memory_allocated()
        history = mlflow_package.MlflowClient().get_metric_history(active.info.run_id, "gpumemshim/gpu0/peak_bytes")
    board = EventAccumulator("board")
    board.Reload()
    points = {point["attributes"]["gpu.index"]: point["value"] for metric in json.loads(reader.get_metrics_data().to_json())["resource_metrics"][0]["scope_metrics"][0]["metrics"] if metric["name"] == "gpu.memory.peak" for point in metric["data"]["data_points"]}
    return {
        "rows": rows,
        "truths": truths,
        "tensorboard": [[each.step, each.value] for each in board.Scalars("gpu0/peak_bytes")],
        "mlflow": sorted([each.step, each.value] for each in history),
        "open_telemetry": points,
        "wandb": said,
        "failed": len(memory.failed),
    }


def transformers():
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    from gpumemshim.integrations.transformers import GpuMemoryCallback

    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128))
    ids = torch.randint(0, 512, (32, 64))
    data = [{"input_ids": row, "labels": row} for row in ids]
    arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=4, max_steps=8, logging_steps=2, save_strategy="no", report_to=[], disable_tqdm=True)
    rows = []
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[GpuMemoryCallback(to=[lambda step, scalars: rows.append(step)])])
    trainer.train()
    return {"rows": rows, "history": [each for each in trainer.state.log_history if "gpu0/peak_bytes" in each], "peak": torch.cuda.max_memory_allocated()}


def lightning():
    import lightning as package
    from lightning.pytorch.loggers import CSVLogger

    from gpumemshim.integrations.lightning import GpuMemoryCallback

    class Model(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(256, 256)

        def training_step(self, batch, number):
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 256)), batch_size=4)
    logger, rows = CSVLogger("csv"), []
    options = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    callback = GpuMemoryCallback(every=2, to=[lambda step, scalars: rows.append([step, scalars])])
    package.Trainer(accelerator="gpu", devices=1, max_steps=10, logger=logger, callbacks=[callback], **options).fit(Model(), data)
    logger.save()
    return {"rows": rows, "csv": (pathlib.Path(logger.log_dir) / "metrics.csv").read_text(), "peak": torch.cuda.max_memory_allocated()}


def accelerate():
    from accelerate import Accelerator
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from gpumemshim.integrations import StepScalars
    from gpumemshim.integrations import accelerate as trackers_of

    accelerator, rows, peaks = Accelerator(log_with="tensorboard", project_dir="trackers"), [], []
    accelerator.init_trackers("run")
    layer = torch.nn.Linear(256, 256)
    layer, optimizer = accelerator.prepare(layer, torch.optim.AdamW(layer.parameters()))
    with StepScalars(every=2, to=[trackers_of(accelerator), lambda step, scalars: rows.append([step, scalars["gpu0/peak_bytes"]])]) as memory:
        for step in range(1, 7):
            spike(step)
            accelerator.backward(layer(torch.randn(64, 256, device=accelerator.device)).square().mean())
            optimizer.step()
            optimizer.zero_grad()
            memory.step(step)
            if step % 2 == 0:
                peaks.append([step, torch.cuda.max_memory_allocated()])
                torch.cuda.reset_peak_memory_stats()
    accelerator.end_training()
    board = EventAccumulator("trackers/run")
    board.Reload()
    return {"rows": rows, "peaks": peaks, "tensorboard": [[each.step, each.value] for tag in board.Tags()["scalars"] if tag.endswith("gpu0/peak_bytes") for each in board.Scalars(tag)]}


if __name__ == "__main__":
    print(json.dumps({"sinks": sinks, "transformers": transformers, "lightning": lightning, "accelerate": accelerate}[sys.argv[1]]()))
