"""What is timed on a cluster, and what times it, as scheduler.py knows them."""


class Job:
    """A batch to be timed: candidates, of which the first are references, and which of them are told already."""

    def __init__(self, message):
        self.task, self.problem, self.run = message["task"], message["problem"], message["run"]
        self.candidates, self.processor = message["candidates"], message["processor"]
        self.left = list(range(self.run["from"], len(self.candidates)))
        self.losses = {}  # by the kernel that was timed when a machine was lost
        self.waited_since = None  # for a machine of its processor, where none is left

    def request(self):
        """The places of the kernels to send, and how they are timed: references, and those that are left."""
        references = self.run["references"]
        places = list(range(references)) + [place for place in self.left if place >= references]
        first = self.left[0] if self.left[0] < references else references
        return places, {**self.run, "from": first}


class Timer:
    """A claim of a node, or a board, with the actor that stands for it."""

    def __init__(self, node, name, board):
        self.node, self.name, self.board = node, name, board
        self.actor, self.processor, self.busy, self.timed, self.state = None, "", 0.0, 0, "starting"
        self.calibration = 0.0
        self.was_ready = False  # never on a node that was lost before Ray knew

    def describe(self, seconds):
        return {"host": self.name, "machine": self.processor, "calibration": self.calibration, "timed": self.timed,
                "busy": round(self.busy / max(seconds, 1e-9), 4), "state": self.state}
