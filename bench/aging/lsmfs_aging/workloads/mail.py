"""Maildirs, as a mail server keeps them, without one: messages come and go, each durable before the next."""

import os

from shared.cold import seeded
from shared.commands import Problem

from .workload import Workload

KiB = 1 << 10


class Mail(Workload):
    name = "mail"
    help = "messages that come to and go from maildirs"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--users", type=int, default=2, metavar="N", help="default: 2")
        parser.add_argument("--boxes", type=int, default=80, metavar="N", help="of each user; default: 80")
        parser.add_argument("--messages", type=int, default=1000, metavar="N", help="in each box at first, 1 to 32 KiB each; default: 1000")
        parser.add_argument("--operations", type=int, default=8000, metavar="N", help="of a day, half of them deletions; default: 8000")
        parser.add_argument("--days", type=int, default=100, help="default: 100")
        parser.add_argument("--every", type=int, default=10, metavar="D", help="measure after every D days; default: 10")

    def __init__(self, given):
        if min(given.users, given.boxes, given.messages, given.operations, given.days, given.every) < 1:
            raise Problem("--users, --boxes, --messages, --operations, --days, --every: at least 1")
        self._given = given

    def asked(self):
        return {name: getattr(self._given, name) for name in ("users", "boxes", "messages", "operations", "days", "every")}

    def steps(self):
        return self._given.days

    def run(self, stage):
        done = stage.open()
        boxes = [os.path.join(stage.point, f"user{user}", f"box{box:03}", "cur") for user in range(self._given.users) for box in range(self._given.boxes)]
        if done == 0:
            stage.context.tell("filling the mailboxes")
            self._fill(stage, boxes)
            stage.measure(0)
        for day in range(done + 1, self._given.days + 1):
            stage.context.tell(f"day {day}")
            self._day(stage, boxes, day)
            if day % self._given.every == 0 or day == self._given.days:
                stage.measure(day, last=day == self._given.days)
            stage.checkpoint(day)
        stage.close(None)

    @staticmethod
    def _deliver(box, name, rng, durable):
        """A message is written beside the mailbox and then renamed into it."""
        new = os.path.join(os.path.dirname(box), "tmp", name)
        with open(new, "wb", buffering=0) as file:
            file.write(rng.randbytes(rng.randint(1, 32) * KiB))
            if durable:
                os.fsync(file.fileno())
        os.rename(new, os.path.join(box, name))

    def _fill(self, stage, boxes):
        rng = seeded(stage.context.seed, self.name)
        with stage.aging():
            for box in boxes:
                os.makedirs(box)
                os.mkdir(os.path.join(os.path.dirname(box), "tmp"))
                for number in range(self._given.messages):
                    self._deliver(box, f"{number:07}.0", rng, durable=False)
            os.sync()

    def _day(self, stage, boxes, day):
        rng = seeded(stage.context.seed, self.name, day)
        with stage.aging():
            for number in range(self._given.operations):
                box = rng.choice(boxes)
                if number % 2:
                    there = sorted(os.listdir(box))
                    if there:
                        os.unlink(os.path.join(box, rng.choice(there)))
                else:
                    self._deliver(box, f"{number:07}.{day}", rng, durable=True)
