"""GPUassay: is this GPU cluster what it was sold as?"""

from importlib.metadata import version

__version__ = version("gpuassay")
