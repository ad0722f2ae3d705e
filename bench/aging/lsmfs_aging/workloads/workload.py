"""What every workload is: a class that the command line makes an object of."""

import contextlib


class Workload:
    name = ""
    help = ""

    @staticmethod
    def add_arguments(parser):
        """Its own options. The object is made of the parsed command line and checks what can be checked: Problem."""
        raise NotImplementedError

    def asked(self):
        """What decides about its figures, as JSON."""
        raise NotImplementedError

    def prepare(self, context):
        """Makes what all cells need."""

    def steps(self):
        """How many times a cell calls checkpoint()."""
        raise NotImplementedError

    def around(self):
        """Entered before anything of a cell runs, and left when all of it has ended, whatever its end was."""
        return contextlib.nullcontext()

    def run(self, stage):
        """Ages the tree of one cell and measures it."""
        raise NotImplementedError
