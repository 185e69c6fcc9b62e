"""Which of several processes this one is, as the launcher of the job says in the environment."""

from collections.abc import Mapping

# (rank, number of ranks). torchrun, accelerate and deepspeed set the first pair, mpirun of Open MPI
# the second. SLURM_PROCID is none: the tasks of one `srun` may be runs of their own, or nodes.
_VARIABLES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
_RAY_WORKER = "RAY_RAYLET_PID"
_LOCAL_RANK = "LOCAL_RANK"


def read_rank(environ: Mapping[str, str]) -> int | None:
    """Return the rank of this process, None when it is not one of several.

    A Ray worker inherits the environment of its node, whose own rank means nothing there: platforms
    count nodes in the same variables. Who starts ranks as Ray workers also sets `LOCAL_RANK`.
    """
    if _RAY_WORKER in environ and _LOCAL_RANK not in environ:
        return None
    for rank_variable, size_variable in _VARIABLES:
        rank, size = environ.get(rank_variable, ""), environ.get(size_variable, "")
        # What an inner launcher says of its one process holds against an outer one's many.
        if rank.isdecimal() and size.isdecimal():
            return int(rank) if int(rank) < int(size) > 1 else None
    return None
