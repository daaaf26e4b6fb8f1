# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The step and the epoch that a trainer counts, where one is at work: a part of the helper.

That there is one is known by the frames that call the optimizer. Its object is looked for among all objects of the program, once, and its counters are
read. Nothing of it is imported, called or changed.
"""


def whole(number):
    """As far as 32 bits have room; 0 = not known."""
    return int(number) if (type(number) is int or type(number) is float) and 0 < number < 1 << 32 else 0


def count_of(thing, name):
    """Of its own, else its class's."""
    found = field(thing, name)
    return defined(type(thing), name) if found is None else found


def of_hugging_face(trainer):
    """A step counts when it is over, an epoch as a fraction."""
    state = field(trainer, "state")
    step, epoch = count_of(state, "global_step"), count_of(state, "epoch")
    return whole(step) + 1 if type(step) is int else 0, whole(epoch) + 1


def of_lightning(trainer):
    loop = field(trainer, "fit_loop")
    automatic = field(loop, "epoch_loop", "automatic_optimization", "optim_progress", "optimizer", "step", "total", "completed")
    manual = field(loop, "epoch_loop", "manual_optimization", "optim_step_progress", "total", "completed")
    epoch = field(loop, "epoch_progress", "current", "processed")
    if not (type(automatic) is type(manual) is type(epoch) is int):
        return 0, 0
    return automatic + manual + 1, epoch + 1


# The end of the file's path, the module that has the class Trainer, and how its counters are read.
TRAINERS = (
    ("/transformers/trainer.py", "transformers.trainer", of_hugging_face),
    ("/lightning/pytorch/trainer/trainer.py", "lightning.pytorch.trainer.trainer", of_lightning),
    ("/pytorch_lightning/trainer/trainer.py", "pytorch_lightning.trainer.trainer", of_lightning),
)


class TrainerCounts:
    def __init__(self):
        self.trainer, self.read = None, None
        self.searches, self.looks = 2, 8

    def now(self):
        """(step, epoch) from 1, as far as 32 bits have room; 0 = not known."""
        trainer = self.trainer and self.trainer()
        if trainer is None and self.searches > 0 and self.looks > 0:
            self.looks -= 1
            trainer = self.find()
        if trainer is None:
            return 0, 0
        step, epoch = self.read(trainer)
        return whole(step), whole(epoch)

    def find(self):
        for code in record.callers():
            for ending, name, read in TRAINERS:
                if text(code.co_filename).endswith(ending):
                    return self.search(name, read)
        return None

    def search(self, name, read):
        self.searches -= 1
        kind = dict.get(module_fields(name), "Trainer")
        found = record.instances(kind) if is_a(kind, type) else None
        if found is None or found.__len__() != 1:  # which one is at work is not known
            return None
        self.trainer, self.read = record.reference(found[0], 0, None), read
        return found[0]
