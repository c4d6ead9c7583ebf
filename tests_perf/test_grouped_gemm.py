"""How fast the accelerators multiply the matrices of mixture-of-experts layers."""

from gpuassay.fixtures import Measure, Observe


def test_prefill(measure: Measure, observe: Observe) -> None:
    """With many rows for each expert, grouped products come close to dense ones, and are right.

    Training and prefill spend most of their time here. The figure is a share of the same GPU's own dense
    rate in the same run, so it judges the library rather than the chip.

    Fix: install the framework and libraries that the image of the vendor has; a loop in place of a grouped
    call is slow.
    """
    for gpu in measure("grouped_prefill"):
        for case in gpu.products:
            observe(gpu, at=case.at, of_dense=case.of_dense, wrong=case.wrong)


def test_decode(measure: Measure, observe: Observe) -> None:
    """With few rows for each expert, grouped products read weights as fast as memory allows, and are right.

    Serving spends most of its time here. A product this small is bound by memory, so bytes a second are
    judged; one expert without any row is among the cases, for that has broken kernels.

    Fix: install the framework and libraries that the image of the vendor has, and look at the memory
    figures.
    """
    for gpu in measure("grouped_decode"):
        for case in gpu.products:
            observe(gpu, at=case.at, gbps=case.gbps, wrong=case.wrong)
