"""How fast and how well models train: torchtitan on each node by itself, and on all nodes together."""

from gpuassay.fixtures import Measure, Observe


def test_llama(measure: Measure, observe: Observe) -> None:
    """Llama 3.1 8B trains on each node as fast as is known of its product, and no node lags.

    It is what the cluster was bought for: matrix products, memory, NVLink, host and software at once. Counted
    are the steps after the first, and operations by formula over the rated rate, never the share that
    torchtitan prints, for which a GPU that it does not know is an A100.

    Fix: compare the node's matrix products, memory and collectives here; if these are good, look at versions
    of torch and its libraries, at processor frequency and at other programs on the node.
    """
    for pool in measure("train_llama"):
        for node in pool.nodes:
            observe(node, tokens_per_s=node.tokens_per_s, against_pool=node.tokens_per_s)
            observe(node, model_tflops=node.model_tflops, step_spread=node.step_spread)


def test_moe(measure: Measure, observe: Observe) -> None:
    """GPT-OSS 20B trains with experts spread over the GPUs of each node, evenly, and no node lags.

    Each layer sends tokens to their experts and back by all-to-all, and every rank waits for the slowest.

    Fix: compare the node's grouped products and its all-to-all here with those of a good node.
    """
    for pool in measure("train_moe"):
        for node in pool.nodes:
            observe(node, tokens_per_s=node.tokens_per_s, against_pool=node.tokens_per_s)
            observe(node, model_tflops=node.model_tflops, step_spread=node.step_spread)


def test_loss(measure: Measure, observe: Observe) -> None:
    """Losses and gradients stay numbers, and the loss falls, on each node and on all together.

    The text that is learnt from is simple enough for a few steps. Where the loss is NaN or does not fall, a
    GPU, a link or a library computes wrongly, however fast it is.

    Fix: look for wrong elements in matrix products and collectives here; take the node out; then look at
    versions of torch and its libraries.
    """
    for pool in measure("train_llama"):
        for node in pool.runs:
            observe(node, at=node.at, finite=node.finite, loss_left=node.loss_left)
    for pool in measure("train_moe"):
        for node in pool.runs:
            observe(node, at=node.at, finite=node.finite, loss_left=node.loss_left)


def test_together(measure: Measure, observe: Observe) -> None:
    """When all nodes train one model together, each GPU is nearly as fast as on its node alone.

    What is lost is spent waiting for the network between nodes, and grows with their number: it is paid for
    in every step.

    Fix: look at collectives between nodes here: rails, scale-out and the settings that first contact needs.
    """
    for pool in measure("train_llama"):
        observe(pool, of_alone=pool.of_alone)
