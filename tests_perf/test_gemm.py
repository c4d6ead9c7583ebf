"""How fast the accelerators of a node multiply matrices, all of them at once and for long."""

from gpuassay.fixtures import Measure, Observe


def test_bf16(measure: Measure, observe: Observe) -> None:
    """Dense BF16 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    Most training computes in it. A GPU that is slower than others of its kind makes every one that works
    with it wait.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_bf16"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)
        observe.show(gpu, clock_mhz=gpu.clock_mhz, power_w=gpu.power_w, celsius=gpu.celsius)


def test_fp16(measure: Measure, observe: Observe) -> None:
    """Dense FP16 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    Older training code and much of inference computes in it, on the same units as BF16; a library that
    has no good kernel for it shows here.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_fp16"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_tf32(measure: Measure, observe: Observe) -> None:
    """Dense TF32 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    It is what frameworks make of 32-bit training on NVIDIA. A library that falls back to FP32 is several
    times slower, and the result would not show it: here it does.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_tf32"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_fp32(measure: Measure, observe: Observe) -> None:
    """Dense FP32 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    Simulations, optimisers and reductions compute in it, on other units than the short formats: a fault
    of these is seen nowhere else.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_fp32"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_fp8(measure: Measure, observe: Observe) -> None:
    """Dense FP8 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    Large models are trained and served in it; it draws the most power for each byte that is read, so it
    finds weak cooling first.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_fp8"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_mxfp8(measure: Measure, observe: Observe) -> None:
    """Dense MXFP8 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    Blackwell and MI355X scale it by blocks of 32, which is how newer models are trained in eight bits;
    an image that is too old for the chip does not have it.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_mxfp8"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_nvfp4(measure: Measure, observe: Observe) -> None:
    """Dense NVFP4 products sustain the rate that is known of this accelerator, are right, and no GPU lags.

    The newest models are served in it, and the price of a rack is argued by its figure; an image that is
    too old for the chip does not have it.

    Fix: compare clocks, power and temperature of the slow GPU with its neighbours' in the recording; a
    power limit, dust or a badly seated cooler are the common causes. If nothing holds it down, or a result
    was wrong, return it.
    """
    for gpu in measure("gemm_nvfp4"):
        observe(gpu, tflops=gpu.tflops, node_median_tflops=gpu.node_median_tflops)
        observe(gpu, of_rated=gpu.tflops, against_pool=gpu.tflops, wrong=gpu.wrong)


def test_mamf(measure: Measure, observe: Observe) -> None:
    """At its best shape and cool, a GPU reaches the highest BF16 rate that is known of its product.

    The gap between this figure and the sustained one is what power and cooling cost; alone it says little.

    Fix: where it is low although the sustained figure is not, look for a clock limit or an old library.
    """
    for gpu in measure("gemm_mamf"):
        observe(gpu, tflops=gpu.tflops, wrong=gpu.wrong)


def test_throttling(measure: Measure, observe: Observe) -> None:
    """Nothing but the power limit holds the clocks down under sustained load.

    To run into the power limit is how these products work. Heat, a slowdown by the board or a power brake
    from outside are not: they come from cooling or supply, and get worse in a full rack.

    Fix: look at inlet temperature, fans or coolant flow, dust and power supplies of the node; then measure
    again.
    """
    for gpu in measure("gemm_bf16"):
        observe(gpu, held_share=gpu.held_share)
