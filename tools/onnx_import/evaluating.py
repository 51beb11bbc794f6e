"""onnx's reference evaluator, with what it computes otherwise than its specification put right."""

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class BatchNormalization(OpRun):
    """As models are run. Of versions 7 to 13, whose nodes have a momentum, onnx 1.23's takes the mean and variance of its input."""

    op_domain = ""

    def _run(self, x, scale, bias, mean, var, **_):
        if getattr(self, "training_mode", 0) or len(self.output) > 1:
            raise NotImplementedError("BatchNormalization is computed as in training")
        shape = [1, -1, *[1] * (x.ndim - 2)]
        scale, bias, mean, var = (np.reshape(each, shape) for each in (scale, bias, mean, var))
        y = scale * (x - mean) / np.sqrt(var + getattr(self, "epsilon", 1e-5)) + bias
        return (y.astype(x.dtype),)


def evaluator(model, **options):
    """A ReferenceEvaluator of a model, or of a graph and its opsets."""
    return ReferenceEvaluator(model, new_ops=[BatchNormalization], **options)
