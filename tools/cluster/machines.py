"""The nodes of a Ray cluster: which there are, how they are called, and where Ray is to place what compiles and what times."""

import asyncio


def cores(node):
    return node["Resources"].get("CPU", 0)


class Machines:
    """A node that claims the resource kiln-TARGET is timed on, and compiles only where no other node does: then by turns."""

    def __init__(self, ray, target, note):
        self.ray, self.note = ray, note
        self.claim = f"kiln-{target}"
        self.nodes, self.lost = {}, 0
        self.unfit = set()  # nodes that cannot compile
        self.placed = 0  # candidates, on those that can, one after the other
        self.compilers, self.by_turns = 0, False

    def claims(self, node):
        return int(node["Resources"].get(self.claim, 0))

    def name_of(self, node, nodes=None):
        """What ray start --node-name says, else its host's name, with the node's number where a host has several."""
        host, name = node["NodeManagerHostname"], node.get("NodeName", "")
        if name not in ("", node["NodeManagerAddress"]):
            return name
        alone = sum(other["NodeManagerHostname"] == host for other in (nodes or self.nodes).values()) == 1
        return host if alone else f"{host}/{node['NodeID'][:6]}"

    async def look(self, settled):
        """Finds nodes that came and went. `settled`: whether turns are taken stays as it is, since timers were started by it."""
        nodes = {node["NodeID"]: node for node in await asyncio.to_thread(self.ray.nodes) if node["Alive"]}
        for node_id in set(self.nodes) - set(nodes):
            self.lost += 1
            self.note(f"the machine {self.name_of(self.nodes[node_id], {**nodes, **self.nodes})} is lost")
        self.nodes = nodes
        others = sum(cores(node) for node_id, node in nodes.items() if not self.claims(node) and node_id not in self.unfit)
        if not settled:
            self.by_turns = others == 0
        self.compilers = int(others or (self.by_turns and sum(cores(node) for node in nodes.values())))

    def leave_out(self, node_id, why):
        """A machine that cannot compile gets no more, as long as others can."""
        if node_id not in self.unfit and node_id in self.nodes:
            self.note(f"the machine {self.name_of(self.nodes[node_id])} cannot compile: {why}")
        self.unfit.add(node_id)

    def compile_options(self):
        """Ray's, for a task that compiles: anywhere, unless some machines cannot."""
        fit = [node_id for node_id, node in self.nodes.items() if node_id not in self.unfit
               and cores(node) >= 1 and (self.by_turns or not self.claims(node))]
        if not self.unfit or not fit:
            return {}
        self.placed += 1
        return self.on_node(fit[self.placed % len(fit)])

    def timer_options(self, timer):
        """Ray's, for the actor of a timer, which takes its claim's share of the node's processors, so that nothing compiles there. A
        board is not disturbed by what its host does."""
        share = 0 if self.by_turns or timer.board else cores(timer.node) / max(1, self.claims(timer.node))
        return {"num_cpus": share, "resources": {self.claim: 1}, "max_restarts": 0, **self.on_node(timer.node["NodeID"])}

    @staticmethod
    def on_node(node_id):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}
