"""What tools/cluster/scheduler.py decides by itself: who times what, and what becomes of a batch whose machine is lost. Ray is not needed."""

import asyncio
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/cluster"))

from batches import Job, Timer  # noqa: E402
from scheduler import Scheduler  # noqa: E402


class Output:
    def __init__(self):
        self.lines = []

    def say(self, **line):
        self.lines.append(line)

    def said(self, key):
        return [line for line in self.lines if key in line]


def job(task=7, processor="", kernels=4):
    run = {"references": 2, "from": 2, "rounds": 7, "seconds": 0.004, "thorough": False, "sizes": []}
    return Job({"task": task, "problem": "p", "run": run, "candidates": list(range(kernels)), "processor": processor})


class SchedulerTest(unittest.TestCase):
    def setUp(self):
        self.output = Output()
        self.scheduler = Scheduler(None, {"target": "x86-64-avx2", "boards": ""}, self.output)

    def timer(self, name="t", processor=""):
        timer = Timer({"NodeID": name}, name, None)
        timer.processor, timer.state = processor, "ready"
        self.scheduler.timers.append(timer)
        return timer

    def test_a_batch_that_was_told_in_full_ends_though_its_machine_is_lost(self):
        batch = job()
        batch.left.clear()
        asyncio.run(self.scheduler.lose(self.timer(), batch, "gone"))
        self.assertEqual(self.output.said("ended"), [{"ended": 7, "error": ""}])
        self.assertEqual((len(self.scheduler.jobs), self.scheduler.retried), (0, 0))

    def test_the_kernel_at_which_machines_are_lost_fails_and_the_rest_is_for_another(self):
        batch = job()
        for count in (1, 2):
            self.scheduler.jobs.clear()
            asyncio.run(self.scheduler.lose(self.timer(str(count)), batch, "gone"))
            self.assertEqual(list(self.scheduler.jobs), [batch])
        failed, = self.output.said("timed")
        self.assertEqual((failed["kernel"], failed["verdict"]), (2, "failed: 2 machines were lost while it was timed"))
        self.assertEqual(batch.left, [3])
        self.assertEqual(batch.request()[0], [0, 1, 3])  # references, and what is left

    def test_times_are_of_one_processor(self):
        known, new = self.timer("known", "A"), self.timer("new")
        other = self.timer("other", "B")
        batch = job(processor="A")
        self.scheduler.jobs.append(batch)
        self.assertIs(self.scheduler.fitting_job(known), batch)
        self.assertIs(self.scheduler.fitting_job(new), batch)  # it is found out then, and handed back where it is another's
        self.assertIsNone(self.scheduler.fitting_job(other))
        fresh = job(task=8)
        self.scheduler.jobs.append(fresh)
        self.assertIs(self.scheduler.fitting_job(other), fresh)


if __name__ == "__main__":
    unittest.main(verbosity=2)
