# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Where scalars go: each function returns a sink, called with (step, {name: bytes}). The packages are imported when a sink is made."""


def tensorboard(writer):
    """Into TensorBoard: a SummaryWriter, or the folder of a new one. Sizes are in bytes."""
    if not hasattr(writer, "add_scalar"):
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(writer))

    def sink(step, scalars):
        for name, value in scalars.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return named(sink, "tensorboard")


def wandb(run=None):
    """Into Weights & Biases: a run, else the one that wandb.init() made. They have an axis of their own, gpumemshim/step, since they come late."""
    import wandb as package

    made = []

    def sink(step, scalars):
        into = run or package.run
        if into is None:
            raise RuntimeError("there is no run. Call wandb.init() first")
        if not made:
            into.define_metric("gpumemshim/step")
            into.define_metric("gpumemshim/*", step_metric="gpumemshim/step")
            made.append(into)
        into.log({"gpumemshim/step": step, **{f"gpumemshim/{name}": value for name, value in scalars.items()}})

    return named(sink, "wandb")


def mlflow(run_id=None):
    """Into MLflow: of a run, else of the one that is active when this is called."""
    import mlflow as package

    if run_id is None:
        active = package.active_run()
        if active is None:
            raise RuntimeError("there is no active run. Call mlflow.start_run() first, or give its id")
        run_id = active.info.run_id
    client = package.MlflowClient()

    def sink(step, scalars):
        for name, value in scalars.items():
            client.log_metric(run_id, f"gpumemshim/{name}", value, step=step)

    return named(sink, "mlflow")


def open_telemetry(meter_provider=None):
    """As OpenTelemetry gauges gpu.memory.peak, .end, .grown and .reserved in bytes, with the attribute gpu.index. Default: the global meter provider."""
    from opentelemetry import metrics

    meter = (meter_provider or metrics.get_meter_provider()).get_meter("gpumemshim")
    gauges = {kind: meter.create_gauge(f"gpu.memory.{kind}", unit="By", description=f"GPU memory of this process: {kind}") for kind in ("peak", "end", "grown", "reserved")}

    def sink(_step, scalars):
        for name, value in scalars.items():
            gpu, kind = name.split("/")
            gauges[kind[: -len("_bytes")]].set(value, {"gpu.index": int(gpu[len("gpu") :])})

    return named(sink, "open_telemetry")


def accelerate(accelerator):
    """Into the trackers of an Accelerator (accelerator.log)."""
    return named(lambda step, scalars: accelerator.log(scalars, step=step), "accelerate")


def named(sink, name):
    """So that a message about it names it."""
    sink.__qualname__ = sink.__name__ = name
    return sink
