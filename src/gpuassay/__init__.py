"""GPUassay answers, with evidence, whether a GPU cluster is what it was sold as."""

from importlib.metadata import version

__version__ = version("gpuassay")
