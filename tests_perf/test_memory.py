"""How fast the memory of the accelerators is."""

from gpuassay.fixtures import Measure, Observe


def test_bandwidth(measure: Measure, observe: Observe) -> None:
    """Memory copies and adds as fast as is known of this accelerator, without a wrong bit, and none lags.

    Serving, optimisers and attention wait for memory. Bytes are counted as the kernel moves them: twice the
    array for a copy, three times for a triad.

    Fix: look at the memory's clock, temperature and error counters in the recording; wrong data is a reason
    to return it.
    """
    for gpu in measure("memory"):
        observe(gpu, copy_gbps=gpu.copy_gbps, triad_gbps=gpu.triad_gbps, read_gbps=gpu.read_gbps)
        observe(gpu, of_rated=gpu.triad_gbps, against_pool=gpu.triad_gbps, wrong=gpu.wrong)


def test_gemv(measure: Measure, observe: Observe) -> None:
    """A matrix times a vector comes close to what the same GPU's memory gives to a triad.

    It is what a model does for one user: every weight is read for each token. Far below the triad, the
    library is at fault, not the memory.

    Fix: install the libraries that the image of the vendor has, and measure again.
    """
    for gpu in measure("memory"):
        observe(gpu, of_triad=gpu.gemv_of_triad)
