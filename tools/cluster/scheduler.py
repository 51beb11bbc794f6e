"""Which machine of a Ray cluster compiles, and which times what, and what is done again where one is lost.

Ray places, moves and repeats; what is decided here is which machine may time what. A node that claims the resource kiln-TARGET is
timed on: one actor a claim, which takes the node's processors, so that nothing compiles there. All other processors compile. Where
there are no others, the same machines do both by turns. Times of a problem come from machines of one processor alone.
"""

import asyncio
import json
import time
from collections import deque

import boards as boards_file
from batches import Job, Timer
from machines import Machines

COMPILE_ATTEMPTS = 5  # of a task that Ray has given up, which repeats it itself where its machine is lost
ACTOR_FAILURES = 3  # of a node's timers in a row, before it is left alone
LOSSES = 2  # of a machine with the same candidate, before it is the candidate's fault
SECONDS_TO_END = 5  # that an actor has to clear its machine's disk
SECONDS_BETWEEN_LOOKS = 0.5  # at the cluster's nodes


class Fatal(Exception):
    """All has to stop."""


class Scheduler:
    def __init__(self, ray, options, output):
        self.ray, self.options, self.output = ray, options, output
        self.machines = Machines(ray, options["target"], self.note)
        self.boards = boards_file.read(options["boards"], options["target"]) if options["boards"] else None
        self.candidates = {}  # compiled: (facts, the object's reference)
        self.jobs, self.timers, self.tasks = deque(), [], set()
        self.changed = asyncio.Condition()
        self.failures = {}  # of a node's timers in a row
        self.refused = {}  # (name, why), by the board's name or else the node's number
        self.retried, self.compiling, self.timing, self.compile_seconds = 0, 0, 0, 0.0
        self.state = None
        self.begin = self.alone_since = time.monotonic()
        self.failed = None

    def note(self, text):
        self.output.say(note=f"kiln: cluster: {text}")

    # The cluster's machines.

    async def look(self):
        """Looks which machines there are, and starts timers where there are claims without one."""
        await self.machines.look(settled=bool(self.timers))
        for node in self.machines.nodes.values():
            self.start_timers(node)
        self.tell_state()

    def start_timers(self, node):
        node_id = node["NodeID"]
        if node_id in self.refused or self.failures.get(node_id, 0) >= ACTOR_FAILURES:
            return
        mine = [timer for timer in self.timers if timer.node["NodeID"] == node_id and timer.state != "lost"]
        if self.boards is None:
            places = [(None, f"{self.machines.name_of(node)}{f'#{i}' if i else ''}") for i in range(self.machines.claims(node))]
        else:
            used = {timer.name for timer in self.timers if timer.state != "lost"} | set(self.refused)
            names = (None, node["NodeManagerAddress"], node["NodeManagerHostname"], node.get("NodeName"))
            fitting = [board for board in self.boards if board["name"] not in used and board.get("host") in names]
            places = [(None, "")] * len(mine) + [(board, board["name"]) for board in fitting]
            places = places[:self.machines.claims(node)]
        for board, name in places[len(mine):]:
            timer = Timer(node, name, board)
            self.timers.append(timer)
            self.spawn(self.serve(timer))

    def tell_state(self):
        seconds = time.monotonic() - self.begin
        alive = [timer for timer in self.timers if timer.state == "ready"]
        starting = any(timer.state == "starting" for timer in self.timers)
        machines = self.machines
        state = {"timers": len(alive), "compilers": machines.compilers, "by_turns": machines.by_turns,
                 "machines": [timer.describe(seconds) for timer in self.timers if timer.was_ready],
                 "refused": dict(self.refused.values()), "lost": machines.lost, "retried": self.retried,
                 "timers_busy": sum(timer.busy for timer in self.timers) / max(seconds, 1e-9) / max(1, len(self.timers)),
                 "compilers_busy": self.compile_seconds / max(seconds, 1e-9) / max(1, machines.compilers)}
        counts = (len(alive), machines.compilers, machines.lost, self.retried, tuple(timer.processor for timer in self.timers))
        if counts != self.state:
            self.output.say(state=state)
            self.state = counts
        if (alive and machines.compilers) or starting:
            self.alone_since = time.monotonic()
        elif time.monotonic() - self.alone_since > self.options["wait"]:
            self.stop_without_machines(alive)
        return state

    def stop_without_machines(self, alive):
        refused = "".join(f"; {name} is refused: {why}" for name, why in self.refused.values())
        what = "compile: all that is left only times" if alive else f"time {self.options['target']}"
        raise Fatal(f"the cluster at {self.options['address']} has had no machine for {self.options['wait']:g} seconds that may "
                    f"{what}; a machine claims it by ray start --resources='{{\"{self.machines.claim}\": 1}}'{refused}")

    # Compiling.

    async def turn(self, timing):
        """By turns, waits until nothing is timed, or compiled; timing goes first."""
        async with self.changed:
            if timing:
                await self.changed.wait_for(lambda: not self.machines.by_turns or self.compiling == 0)
                self.timing += 1
            else:
                await self.changed.wait_for(lambda: not self.machines.by_turns or (self.timing == 0 and not self.jobs))
                self.compiling += 1

    async def turn_is_over(self, timing):
        async with self.changed:
            self.timing -= timing
            self.compiling -= not timing
            self.changed.notify_all()

    async def compile(self, message):
        task = message.pop("task")
        request = {**message, "target": self.options["target"], "time_limit": self.options["time_limit"]}
        for attempt in range(1, COMPILE_ATTEMPTS + 1):
            await self.turn(False)
            try:
                facts, data = self.compile_task.options(**self.machines.compile_options()).remote(self.options["own_kiln"],
                                                                                                  request)
                facts = await facts
                if "unfit" not in facts:
                    break
                self.retried += 1
                self.machines.leave_out(facts["node"], facts["unfit"])
                if attempt == COMPILE_ATTEMPTS:
                    raise Fatal(f"a candidate could not be compiled in {attempt} attempts: {facts['unfit']}; go on with --resume")
            except self.ray.exceptions.RayError as error:
                why = str(error).strip().splitlines()[-1]
                self.retried += 1
                self.note(f"a candidate is compiled again: {why}")
                if attempt == COMPILE_ATTEMPTS:
                    raise Fatal(f"a candidate could not be compiled in {attempt} attempts: {why}; go on with --resume") from None
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            finally:
                await self.turn_is_over(False)
        self.compile_seconds += facts.get("seconds", 0)
        if "error" not in facts:
            self.candidates[task] = ({**facts, "algorithm": message["algorithm"], "schedule": message["schedule"]}, data)
        self.output.say(compiled=task, error=facts.get("error", ""), seconds=facts.get("seconds", 0))

    # Timing.

    def fitting_job(self, timer):
        """The first that the timer's processor may time. Which it is is found out by its first job, which is handed back where it is
        another's."""
        for job in self.jobs:
            if "" in (job.processor, timer.processor) or job.processor == timer.processor:
                return job
        return None

    async def introduce(self, timer):
        """Starts the timer's actor; whether it may time the target."""
        timer.actor = self.timer_class.options(**self.machines.timer_options(timer)).remote(self.options["own_kiln"],
                                                                                            self.options["target"])
        try:
            said = await timer.actor.introduce.remote()
        except OSError as error:
            self.refuse(timer, self.words_of(error))
            return False
        why = "" if timer.board or self.options["runner"] else said["refused"]
        mine = (self.options["kiln"], self.options["halide"])
        if (said["kiln"], said["halide"]) != mine:
            why = f"its kiln is {said['kiln']} with Halide {said['halide']}, this one {mine[0]} with {mine[1]}"
        if why:
            self.refuse(timer, why)
        return not why

    def words_of(self, error):
        """Of an error that a task raised and Ray handed on."""
        return str(error.cause if isinstance(error, self.ray.exceptions.RayTaskError) else error)

    def refuse(self, timer, why):
        timer.state = "refused"
        self.refused[timer.name if timer.board else timer.node["NodeID"]] = (timer.name, why)
        self.note(f"the machine {timer.name} is refused: {why}")
        self.spawn(self.end(timer))

    async def end(self, timer):
        """Ends a timer's actor, which clears its machine's disk before, unless it is busy or gone."""
        try:
            await asyncio.wait_for(timer.actor.end.remote(), SECONDS_TO_END)
        except (asyncio.TimeoutError, OSError, self.ray.exceptions.RayError):
            pass
        self.ray.kill(timer.actor)

    async def serve(self, timer):
        """A timer's life."""
        job = None
        try:
            if not await self.introduce(timer):
                return
            timer.state, timer.was_ready = "ready", True
            self.tell_state()
            while timer.state == "ready":
                async with self.changed:
                    await self.changed.wait_for(lambda: self.fitting_job(timer))
                    job = self.fitting_job(timer)
                    self.jobs.remove(job)
                await self.turn(True)
                begin = time.monotonic()
                try:
                    await self.time(timer, job)
                    job, self.failures[timer.node["NodeID"]] = None, 0
                except OSError as error:  # Ray hands on what its task raised
                    self.retried += 1
                    self.refuse(timer, self.words_of(error))
                    await self.hand_back(job)
                finally:
                    timer.busy += time.monotonic() - begin
                    await self.turn_is_over(True)
        except self.ray.exceptions.RayError as error:
            await self.lose(timer, job, str(error).strip().splitlines()[0])

    async def lose(self, timer, job, why):
        """A timer's machine or process is gone: what it had not told yet is for another."""
        timer.state = "lost"
        node_id = timer.node["NodeID"]
        self.failures[node_id] = self.failures.get(node_id, 0) + 1
        self.note(f"the timer of {timer.name} is lost: {why}")
        if job and not job.left:
            await self.hand_back(job)  # all of it was told
        elif job:
            self.retried += 1
            kernel = job.left[0]
            job.losses[kernel] = job.losses.get(kernel, 0) + 1
            if job.losses[kernel] >= LOSSES:
                self.tell_timing(job, kernel, timer, {"verdict": f"failed: {LOSSES} machines were lost while it was timed"})
            await self.hand_back(job)

    async def hand_back(self, job):
        if not job.left:
            self.output.say(ended=job.task, error="")
            return
        async with self.changed:
            self.jobs.appendleft(job)
            self.changed.notify_all()

    def tell_timing(self, job, kernel, timer, said):
        job.left.remove(kernel)
        timer.timed += 1
        timer.calibration = said.get("calibration", timer.calibration)
        self.output.say(timed=job.task, kernel=kernel, verdict=said["verdict"], seconds=said.get("seconds", []),
                        beside=said.get("beside", []), sizes=said.get("sizes", []), took=said.get("took", 0), host=timer.name,
                        processor=said.get("processor") or timer.processor, calibration=said.get("calibration", 0),
                        load=said.get("load", 0))

    async def time(self, timer, job):
        """Times what is left of a batch. Raises RayError where the machine is lost."""
        places, run = job.request()
        chosen = [self.candidates[job.candidates[place]] for place in places]
        board = timer.board or {"runner": self.options["runner"], "cxx": self.options["cxx"]}
        request = {"target": self.options["target"], "problem": job.problem, "run": run, "processor": job.processor,
                   "kernels": [dict(facts) for facts, _ in chosen], "seed": self.options["seed"], "cold": self.options["cold"],
                   "time_limit": self.options["time_limit"], "runner": board["runner"], "cxx": board.get("cxx", ""),
                   "claimed": board.get("processor", "")}
        await timer.actor.begin.remote(request, *(data for _, data in chosen))
        while True:
            said = await timer.actor.more.remote()
            if "kernel" in said:
                if said["processor"]:
                    timer.processor = said["processor"]
                self.tell_timing(job, places[said["kernel"]], timer, said)
                job.processor = job.processor or said["processor"]
                self.tell_state()
            elif "other" in said:
                timer.processor = said["other"]
                return await self.hand_back(job)
            elif "refused" in said:
                self.refuse(timer, said["refused"])
                return await self.hand_back(job)
            elif "ended" in said:
                self.output.say(ended=job.task, error=said["ended"])
                return None
            else:
                self.output.say(ended=job.task, error=f"{timer.name}: kiln ended with status {said['exit']}: {said['words']}")
                return None

    async def drop_orphans(self):
        """Jobs whose processor no machine has any more are given up, after a while."""
        known = {timer.processor for timer in self.timers if timer.state in ("ready", "starting")}
        for job in list(self.jobs):
            if job.processor in known or "" in known | {job.processor}:
                job.waited_since = None
                continue
            job.waited_since = job.waited_since or time.monotonic()
            if time.monotonic() - job.waited_since > self.options["wait"]:
                self.jobs.remove(job)
                self.output.say(ended=job.task, error=f"no machine is left with the processor that timed it, {job.processor}")

    # From kiln's first line to its last.

    def spawn(self, work):
        async def guarded():
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception as error:  # a bug, or all has to stop: either way kiln hears of it
                self.failed = self.failed or error
        task = asyncio.get_running_loop().create_task(guarded())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def handle(self, message):
        do = message.pop("do")
        if do == "compile":
            self.spawn(self.compile(message))
        elif do == "release":
            self.candidates.pop(message["candidate"], None)
        else:
            async with self.changed:
                self.jobs.append(Job(message))
                self.changed.notify_all()

    async def watch(self):
        while True:
            await self.look()
            await self.drop_orphans()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async def run(self, reader):
        self.spawn(self.watch())
        line = asyncio.ensure_future(reader.readline())
        while True:
            await asyncio.wait([line], timeout=SECONDS_BETWEEN_LOOKS)
            if self.failed:
                raise self.failed
            if line.done():
                if not line.result():
                    break
                await self.handle(json.loads(line.result()))
                line = asyncio.ensure_future(reader.readline())
        self.state = None
        self.output.say(state=self.tell_state(), bye=True)

    def prepare(self):
        """What runs elsewhere goes there as it is: no machine needs these files."""
        import actors
        self.ray.cloudpickle.register_pickle_by_value(actors)
        self.compile_task = self.ray.remote(num_cpus=1, num_returns=2, max_retries=3)(actors.compile_candidate)
        self.timer_class = self.ray.remote(actors.Timer)
