"""Installed into the environment as `softgpu_torch_ops` (scripts/frameworks/pytorch/setup.sh): PyTorch itself loads it at import, by its
entry point for backends outside its tree, so that scripts run unmodified."""
import os
import warnings


def load():
    library = os.environ.get("SOFTGPU_TORCH_OPS")
    if not library:
        return
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.ops.load_library(library)
