"""What runs on the machines of a cluster. scheduler.py hands this module over as it is: they need Ray and a kiln, and nothing else
of it. A kernel's object is bytes of Ray's, from the machine that compiled it to the one that times it."""

import fcntl
import glob
import json
import os
import shutil
import subprocess
import tempfile

LEAST_FREE = 32 << 20  # bytes of the disk: a program of a batch has some megabytes


def find_kiln(usual):
    """$KILN, else that of PATH, else where the driver has its own."""
    for path in (os.environ.get("KILN"), shutil.which("kiln"), usual):
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("there is no kiln: neither KILN nor PATH has one")


def expect_space(folder):
    """What fails on a full disk is the machine's fault, and no candidate's. Raises OSError."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise OSError(f"its disk is full: {free >> 20} MB are free at {folder}, and {LEAST_FREE >> 20} are needed")


class Folder:
    """A temporary folder. A process that is killed leaves it behind, and with it a lock that nobody holds any more: the next one on
    the machine removes it."""

    def __init__(self, kind):
        for owner in glob.glob(os.path.join(tempfile.gettempdir(), "kiln-timer-*", "owner")) + glob.glob(
                os.path.join(tempfile.gettempdir(), "kiln-candidate-*", "owner")):
            self.remove_unowned(owner)
        self.path = tempfile.mkdtemp(prefix=f"kiln-{kind}-")
        part = os.path.join(self.path, "part")
        self.lock = open(part, "w", encoding="utf-8")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(part, os.path.join(self.path, "owner"))  # it is locked before anybody looks for it

    @staticmethod
    def remove_unowned(owner):
        try:
            with open(owner, "r+", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.dirname(owner), ignore_errors=True)
        except OSError:
            pass  # its process lives, has just removed it, or is another user's

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()

    def __enter__(self):
        return self.path

    def __exit__(self, *error):
        self.remove()


def compile_candidate(usual, request):
    """(what kiln says of it, the object); the object is empty where the candidate does not compile, and where this machine cannot
    compile any, which "unfit" then tells of."""
    try:
        with Folder("candidate") as folder:
            expect_space(folder)
            kiln = find_kiln(usual)
            process = subprocess.run([kiln, "candidate", "compile"], input=json.dumps({**request, "folder": folder}),
                                     capture_output=True, text=True, check=False)
            if process.returncode != 0:
                raise OSError(f"{kiln} ended with status {process.returncode}: {process.stderr.strip()[-300:]}")
            facts = json.loads(process.stdout)
            if "error" in facts:
                expect_space(folder)
                return facts, b""
            with open(facts.pop("object"), "rb") as file:
                return facts, file.read()
    except OSError as error:
        import ray
        return {"unfit": str(error), "node": ray.get_runtime_context().get_node_id()}, b""


class Timer:
    """A machine, or a board, that times one batch at a time."""

    def __init__(self, usual, target):
        self.kiln, self.target, self.process, self.problem = find_kiln(usual), target, None, None
        self.folder = Folder("timer")

    def introduce(self):
        """The versions of its kiln, and why its processor cannot run the target, if so. Raises OSError where this machine cannot time
        anything."""
        expect_space(self.folder.path)
        process = subprocess.run([self.kiln, "candidate", "machine"], input=json.dumps({"target": self.target}),
                                 capture_output=True, text=True, check=True)
        return {**json.loads(process.stdout), "pid": os.getpid(), "load": os.getloadavg()[0]}

    def begin(self, request, *objects):
        """Starts to time a batch; what comes of it is told by more(). Raises OSError where this machine cannot."""
        self.stop()
        expect_space(self.folder.path)
        if request["problem"] != self.problem:  # results of the reference are kept for each problem
            self.folder.remove()
            self.folder = Folder("timer")
        self.problem = request["problem"]
        for kernel, data in zip(request["kernels"], objects):
            kernel["object"] = os.path.join(self.folder.path, kernel["symbol"] + ".o")
            with open(kernel["object"], "wb") as file:
                file.write(data)
        self.process = subprocess.Popen([self.kiln, "candidate", "time"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        with self.process.stdin as file:
            json.dump({**request, "folder": self.folder.path}, file)

    def more(self):
        """The next line that kiln says; once it has ended, {"exit": status, "words": what it said of an error}. Raises OSError where
        something failed, and that on a full disk."""
        line = self.process.stdout.readline()
        said = json.loads(line) if line else {"words": self.process.stderr.read().strip()[-300:], "exit": self.process.wait()}
        if not line or said.get("ended") or said.get("verdict", "ok") != "ok":
            expect_space(self.folder.path)
        return said

    def end(self):
        """Leaves nothing behind."""
        self.stop()
        self.folder.remove()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process:
            self.process.stdout.close()
            self.process.stderr.close()
        self.process = None
