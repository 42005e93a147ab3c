"""The environment of processes that a test starts: without what this one's own launcher left."""

import os

LAUNCHERS = ("TUTTI_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "TORCHELASTIC_", "NCCL_", "XDG_RUNTIME",
             "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def clean_environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**kept, "TUTTI_CACHE": "off"}  # what earlier jobs have measured changes nothing
