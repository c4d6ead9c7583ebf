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
            observe(gpu, at=case.at, of_dense=case.of_dense, of_rated=case.tflops, wrong=case.wrong)


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


def test_fp8(measure: Measure, observe: Observe) -> None:
    """In FP8, grouped products of the framework come close to dense ones, and are right.

    The figure is a share of the same GPU's own dense FP8 rate. Where the framework has no such call for this
    chip, it says so, and there is no figure.

    Fix: take the vendor's image, or a newer framework that has the call for this chip.
    """
    for gpu in measure("grouped_fp8"):
        for case in gpu.products:
            observe(gpu, at=case.at, of_dense=case.of_dense, wrong=case.wrong)


def test_mxfp8(measure: Measure, observe: Observe) -> None:
    """In MXFP8, whose blocks of 32 share a scale, grouped products come close to dense ones, and are right.

    Models are trained and served in it on chips that have it. Each block has the scale that its values give,
    laid out as the chip reads it: where it is read otherwise, elements are wrong by more than rounding.

    Fix: take the vendor's image, or a newer framework that has the call for this chip.
    """
    for gpu in measure("grouped_mxfp8"):
        for case in gpu.products:
            observe(gpu, at=case.at, of_dense=case.of_dense, wrong=case.wrong)


def test_nvfp4(measure: Measure, observe: Observe) -> None:
    """In NVFP4, with 16 values to a scale, grouped products come close to dense ones, and are right.

    It is the fastest format of Blackwell, and the one in which large mixture-of-experts models are served.
    Where the framework has no such call for this chip, it says so, and there is no figure.

    Fix: take the vendor's image, or a newer framework that has the call for this chip.
    """
    for gpu in measure("grouped_nvfp4"):
        for case in gpu.products:
            observe(gpu, at=case.at, of_dense=case.of_dense, wrong=case.wrong)


def test_deep_gemm(measure: Measure, observe: Observe) -> None:
    """DeepGEMM, with which many mixture-of-experts models are served, comes close to dense FP8, and is right.

    It is compiled on the node as it is used, and has to be built there first. Slower than that, it was built
    for another chip, or does without its fastest kernels.

    Fix: build it into the image from its repository; the package of that name on PyPI is a placeholder.
    """
    for gpu in measure("deep_gemm"):
        for case in gpu.products:
            observe(gpu, at=case.at, of_dense=case.of_dense, wrong=case.wrong)
