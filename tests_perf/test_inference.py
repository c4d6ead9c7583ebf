"""How an inference endpoint serves agents: dialogues of many turns, a growing prefix and short answers."""

from gpuassay.fixtures import Measure, Observe


def test_answers(measure: Measure, observe: Observe) -> None:
    """The endpoint answers a short dialogue to its end, in a stream.

    An HTTP status of 200 proves nothing: the error may stand in the body or in the stream, and a stream may
    end early.

    Fix: ask it by hand with the same model and token; look at the server's log and at proxies before it.
    """
    for endpoint in measure("inference_contact"):
        observe(endpoint, failed_share=endpoint.failed_share)


def test_errors(measure: Measure, observe: Observe) -> None:
    """Under the load of many agents, requests are answered to their end.

    A dialogue whose answer failed ends there, and its later turns count as failed too: an agent cannot go on
    without them either.

    Fix: look at the server's log at these times: full queues, memory of the key-value cache, time limits of a
    proxy before it.
    """
    for endpoint in measure("inference"):
        observe(endpoint, failed_share=endpoint.failed_share, truncated=endpoint.truncated)


def test_latency(measure: Measure, observe: Observe) -> None:
    """Under that load, agents wait no longer for the first token and for each further one than is usable.

    Agents wait at every turn, so what one answer takes adds up. A shared prefix that is computed anew each
    time shows in the first token.

    Fix: switch prefix caching on; send a dialogue to the replica that has its prefix; give prefill its own
    GPUs or chunk it; add replicas.
    """
    for endpoint in measure("inference"):
        observe(endpoint, ttft_p99_s=endpoint.ttft_p99_s, tpot_p99_s=endpoint.tpot_p99_s)
        observe(endpoint, e2e_p90_s=endpoint.e2e_p90_s)


def test_throughput(measure: Measure, observe: Observe) -> None:
    """Tokens a second of each GPU, and what a single agent sees of them, are shown.

    They depend on the model more than on the machine, so they are to be compared with runs of the same model.

    Fix: where there is none at all, see why requests fail.
    """
    for endpoint in measure("inference"):
        observe(endpoint, tokens_per_s_per_gpu=endpoint.tokens_per_s_per_gpu)
        observe(endpoint, interactivity_p90=endpoint.interactivity_p90)
