"""What whole networks are timed beside: a module for each way, run in a process of its own (peers/worker.py).

A module has

    PACKAGES        what pip installs for it, () for nothing
    version()       of the library, a text
    load(model, inputs)
                    everything that comes before a run, on one thread, of an ONNX file and {input: array}; returns a
                    peers.Prepared whose output() is the list of the model's outputs. It may raise whatever it likes

and may have CALL_NOTE, what its times include that is not the library's.

Where it can time its nodes, what load() returns also has

    order(calls)    runs the model so often, and once before, each node timed
    profile()       [{"names", "kind", "seconds"}] of all those runs, a row a node: what it may be called, the operator, and the
                    times; Kiln's have "what" and "warm" too, the times of the node where it runs again and again
"""
