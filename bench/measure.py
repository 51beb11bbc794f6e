"""One layer: every side's answer checked, then timed in rounds, in which each is asked in turn for one batch of calls."""

import dataclasses
import os
import statistics
import tempfile

import numpy as np

import tensors as numbers
from sides import Gone

# After the first round, a side's layouts that are this much slower than its best one are left alone.
HOPELESS = 1.5


@dataclasses.dataclass
class Candidate:
    """One way in which a side computes a layer."""

    side: object
    layout: str
    plain: bool  # x and y in NCX
    epilogue: str  # the activation, "" for none
    problem: object
    verdict: str = ""  # ok, wrong, unsupported, failed, crashed
    note: str = ""
    error: float = None
    seconds: list = dataclasses.field(default_factory=list)  # of each round

    @property
    def key(self):
        return f"{self.layout}/{self.epilogue}"

    @property
    def time(self):
        return statistics.median(self.seconds)

    @property
    def usable(self):
        return self.verdict == "ok" and bool(self.seconds)


def epilogues(problem):
    """What is measured behind the sum: nothing and a ReLU, or what the layer has where that is something else."""
    return ["", "relu"] if problem.activation in ("", "relu") else [problem.activation]


def candidates_of(problem, sides):
    return [Candidate(side, layout, plain, epilogue, problem.with_activation(epilogue))
            for epilogue in epilogues(problem) for side in sides for layout, plain in side.facts.get("layouts", [])]


class Layer:
    """Prepares and checks a layer's candidates, and times them."""

    def __init__(self, problem, sides, folder, seed=1):
        self.sides, self.folder = sides, folder
        self.candidates = candidates_of(problem, sides)
        self.files = {}
        self.expected = {}
        tensors = numbers.make(problem, seed)
        self.tensors = os.path.join(folder, "tensors.npz")
        np.savez(self.tensors, **tensors)
        for epilogue in epilogues(problem):
            self.expected[epilogue] = numbers.reference(problem.with_activation(epilogue), tensors)

    def prepare(self):
        for side in self.sides:
            mine = [candidate for candidate in self.candidates if candidate.side is side]
            for index, candidate in enumerate(mine):
                if self._prepare(candidate):
                    continue
                side.start()  # it ended: what was ready before is made ready again
                for earlier in mine[:index]:
                    if earlier.verdict == "ok" and not self._prepare(earlier):
                        side.start()

    def _prepare(self, candidate):
        """Whether the side still runs."""
        output = os.path.join(self.folder, "output.npy")
        try:
            answer = candidate.side.ask("prepare", key=candidate.key, problem=candidate.problem.text(),
                                        layout=candidate.layout, tensors=self.tensors, output=output)
        except Gone as error:
            candidate.verdict, candidate.note = "crashed", str(error)
            return False
        refusal = next((kind for kind in ("unsupported", "failed") if kind in answer), None)
        if refusal:
            candidate.verdict, candidate.note = refusal, answer[refusal]
            return True
        candidate.note = answer["note"]
        try:
            candidate.error, right = numbers.error_of(candidate.problem, np.load(output),
                                                      self.expected[candidate.epilogue])
        except ValueError as error:
            right, candidate.note = False, str(error)
        candidate.verdict = "ok" if right else "wrong"
        return True

    def time(self, rounds, seconds):
        """Interleaved: in every round each candidate gets one batch, and the order turns."""
        running = [candidate for candidate in self.candidates if candidate.verdict == "ok"]
        for number in range(rounds):
            turned = running[number % len(running):] + running[:number % len(running)] if running else []
            for candidate in turned:
                self._time(candidate, seconds)
            running = [candidate for candidate in running if candidate.usable and not self._hopeless(candidate)]

    def _time(self, candidate, seconds):
        if candidate.verdict != "ok":
            return
        try:
            answer = candidate.side.ask("time", key=candidate.key, seconds=seconds)
        except Gone as error:
            candidate.verdict, candidate.note = "crashed", str(error)
            candidate.side.start()
            for other in self.candidates:
                if other.side is candidate.side and other.verdict == "ok":
                    self._prepare(other)
            return
        if "seconds" in answer:
            candidate.seconds.append(answer["seconds"])
        else:
            candidate.verdict, candidate.note = "failed", answer.get("failed", "")

    def _hopeless(self, candidate):
        """Whether it wins neither among all layouts nor among the plain ones."""
        mine = [other for other in self.candidates if other.usable and other.side is candidate.side
                and other.epilogue == candidate.epilogue and other.plain >= candidate.plain]
        return candidate.time > HOPELESS * min(other.time for other in mine)

    def drop(self):
        for side in self.sides:
            try:
                side.ask("drop")
            except Gone:
                side.start()


def fastest(candidates):
    return min((candidate for candidate in candidates if candidate.usable), key=lambda c: c.time, default=None)


def times_over(candidate, other):
    """How many times other's time a candidate takes: the median over the rounds that both ran of the ratio in each. A
    machine's slow minutes hit both sides of a round alike, but not both medians alike."""
    return statistics.median(mine / its for mine, its in zip(candidate.seconds, other.seconds))


def fastest_beside(candidates, other):
    """The candidate that takes the least in other's rounds."""
    return min((candidate for candidate in candidates if candidate.usable), key=lambda c: times_over(c, other), default=None)


def measure(problem, sides, rounds, seconds):
    """[Candidate], checked and timed."""
    with tempfile.TemporaryDirectory() as folder:
        layer = Layer(problem, sides, folder)
        layer.prepare()
        layer.time(rounds, seconds)
        layer.drop()
    return layer.candidates
