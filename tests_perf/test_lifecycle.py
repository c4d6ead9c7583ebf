"""What users wait for before any work is done, on each file system: packages, imports, a server's start."""

from gpuassay.fixtures import Measure, Observe


def test_install(measure: Measure, observe: Observe) -> None:
    """Packages are installed in reasonable time wherever users keep their environments.

    An environment for training is tens of thousands of small files. File systems that are fast with large
    ones may take minutes for it, and the same again whenever it is removed or copied.

    Fix: keep environments on local drives or in images. Ask the provider for a file system, or a tier of
    this one, whose servers of metadata are made for many small files.
    """
    for node in measure("install"):
        observe(node, at=node.at, pip_seconds=node.pip_seconds, uv_seconds=node.uv_seconds)
        observe(node, at=node.at, uv_first_seconds=node.uv_first_seconds)


def test_import(measure: Measure, observe: Observe) -> None:
    """`import torch` takes one or two seconds, and not ten or twenty.

    It opens more than two thousand files, of which many are not there. On a file system that is slow with
    small files every start of every rank waits for that, and every try of whoever mends a program.

    Fix: keep environments on local drives or in images. Raise how long clients may remember names and
    attributes, also of files that do not exist (NFS: actimeo, lookupcache=all); ask for faster metadata.
    """
    for node in measure("import"):
        observe(node, at=node.at, warm_seconds=node.warm_seconds, cold_seconds=node.cold_seconds)


def test_first_token(measure: Measure, observe: Observe) -> None:
    """A server answers with its first token soon after its start, with the weights on any file system.

    Replicas are started when load rises and after every failure; until the weights are read the GPUs are
    paid for and idle. Weights that were only declared, and not read, would hide that: here they are as
    large as the model's, and not in memory.

    Fix: keep weights on local drives, or on a file system that reads large files fast; load them with
    several readers. Where the second start is as slow, it is not storage: look at the processors.
    """
    for node in measure("first_token"):
        observe(node, at=node.at, first_token_seconds=node.first_token_seconds)
