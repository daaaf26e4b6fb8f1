# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The step and the epoch that a trainer counts, where one is at work: a part of helper.py, behind it.

That there is one is told by the frames that call the optimizer. Its object is looked for among all objects of the program, once, and its counters are
read. Nothing of it is imported, called or changed.
"""


def of_hugging_face(trainer):
    """A step counts when it is over, an epoch as a fraction."""
    return trainer.state.global_step + 1, int(trainer.state.epoch or 0) + 1


def of_lightning(trainer):
    loop = trainer.fit_loop
    manual, automatic = loop.epoch_loop.manual_optimization, loop.epoch_loop.automatic_optimization
    done = automatic.optim_progress.optimizer.step.total.completed + manual.optim_step_progress.total.completed
    return done + 1, loop.epoch_progress.current.processed + 1


# The end of the file's path, the module that has the class Trainer, and how its counters are read.
TRAINERS = (
    ("/transformers/trainer.py", "transformers.trainer", of_hugging_face),
    ("/lightning/pytorch/trainer/trainer.py", "lightning.pytorch.trainer.trainer", of_lightning),
    ("/pytorch_lightning/trainer/trainer.py", "pytorch_lightning.trainer.trainer", of_lightning),
)


class TrainerCounts:
    def __init__(self, sys, weakref):
        self.sys, self.weakref = sys, weakref
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
        try:
            return tuple(number if 0 < number < 1 << 32 else 0 for number in self.read(trainer))
        except (AttributeError, TypeError):  # of another version
            self.trainer, self.searches = None, 0
            return 0, 0

    def find(self):
        frame = self.sys._getframe()
        while frame is not None:
            for ending, name, read in TRAINERS:
                if frame.f_code.co_filename.endswith(ending):
                    return self.search(name, read)
            frame = frame.f_back
        return None

    def search(self, name, read):
        self.searches -= 1
        kind = getattr(self.sys.modules.get(name), "Trainer", None)
        gc = self.sys.modules.get("gc")
        if kind is None or gc is None:
            return None
        found = [each for each in gc.get_objects() if kind in type(each).__mro__]
        if len(found) != 1:  # which one is at work is not known
            return None
        self.trainer, self.read = self.weakref.ref(found[0]), read
        return found[0]
