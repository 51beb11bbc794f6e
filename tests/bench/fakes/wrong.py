"""Its ReLU is missing."""

import right
from right import LAYOUTS, PACKAGES, version  # noqa: F401


def prepare(problem, layout, tensors):
    return right.prepared(problem.with_activation(""), layout, tensors, right.SECONDS / 100, "wrong")
