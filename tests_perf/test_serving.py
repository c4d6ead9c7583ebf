"""How nodes serve a model that we start on them."""

from gpuassay.fixtures import Measure, Observe


def test_agents(measure: Measure, observe: Observe) -> None:
    """A vLLM that we start on a node comes up, answers agents to their end, and is gone when it is ended.

    Without an endpoint of the provider's, this is what a user makes: a server on the GPUs of one node. The
    load comes from the node itself. A server that stays behind holds the memory of GPUs for the next user.

    Fix: where it does not come up, see its last words; where requests fail, its version and the driver's;
    what is left behind, end it, and let the scheduler end all processes of a job.
    """
    for node in measure("agents"):
        observe(node, failed_share=node.failed_share, truncated=node.truncated)
        observe(node, left_behind=node.left_behind, ready_seconds=node.ready_seconds)
        observe(node, ttft_p99_s=node.ttft_p99_s, tpot_p99_s=node.tpot_p99_s)
        observe(node, tokens_per_s_per_gpu=node.tokens_per_s_per_gpu, beside_pool=node.tokens_per_s_per_gpu)
