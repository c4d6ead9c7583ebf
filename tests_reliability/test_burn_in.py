"""All accelerators multiply and exchange at once, for hours: right, alive, and as fast at the end."""

from gpuassay.fixtures import Measure, Observe


def test_alive(measure: Measure, observe: Observe) -> None:
    """Every rank comes through, and none of its beats hangs.

    Early failures show in the first hours of full load. Each rank writes a journal while it works; one that
    falls silent is named with its last beat, and those that only stopped with it are told apart.

    Fix: take the node that is named out of service, look into its kernel log and BMC for that moment, and
    burn it in again before it comes back.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, alive=gpu.alive, stall_s=gpu.stall_s)


def test_length(measure: Measure, observe: Observe) -> None:
    """The load lasts for eight hours, and for as long as was asked.

    What is asked for in a CI is shorter: that shows that it works, and little of the machines. Most of what
    fails early does so within the first hours of full load. A run that was killed can be taken up, and the
    time under load counts once; but machines that stood idle for long in between have cooled down, and it is
    the long heat that brings early failures to light.

    Fix: leave --burn-in away, or go on with a run that was cut by --resume=DIR, soon.
    """
    for whole in measure("burn_in"):
        observe(whole, hours=whole.hours, whole=whole.whole, gap_s=whole.gap_s)


def test_bits(measure: Measure, observe: Observe) -> None:
    """Every result has the bits that it must have, under full load, for hours.

    The same operands go through the same kernel again and again, so the result is known to the last bit. A
    tile that differs is computed again alone before anybody is accused: what is right then was wrong under
    load. And what all GPUs of a kind agree on, one that is wrong from the first on does not.

    Fix: take the GPU that is named out of service; have it exchanged where it happens again. Results of jobs
    that it took part in are not to be trusted.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, wrong_tiles=gpu.wrong_tiles, unlike=gpu.unlike, wrong_exchanged=gpu.wrong_exchanged)


def test_overlap(measure: Measure, observe: Observe) -> None:
    """Products and exchanges really run at the same time.

    Burned in one after the other, a machine never draws the power, and its memory and links never see the
    load, of a training step. So both have their begin and end by the device's clock, and what they do at
    once is held to what each does alone.

    Fix: see what keeps them apart: one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1), or an exchange that
    takes all multiprocessors.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, both_share=gpu.both_share, efficiency=gpu.efficiency)


def test_drift(measure: Measure, observe: Observe) -> None:
    """Every GPU is as fast in the last hour as it was in the first.

    Heat that builds up over hours, a pump or fan that gives in, a link that trains down: none of it shows in
    a benchmark of minutes.

    Fix: compare temperatures and clocks of the first and the last hour; look at cooling, power and links of
    the GPUs that are named.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, products=gpu.products_last_of_first, exchange=gpu.exchange_last_of_first)


def test_stragglers(measure: Measure, observe: Observe) -> None:
    """No GPU multiplies slower under the load than its like do.

    A job waits for its slowest rank in every step, so one GPU that lags for hours makes all others idle for
    as long.

    Fix: look at clocks, power limit and temperature of the GPU that is named, and exchange it if they are as
    they should be.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, tflops=gpu.tflops)


def test_throttling(measure: Measure, observe: Observe) -> None:
    """Nothing but the power limit holds clocks down in the course of it.

    Heat and power brakes cost speed, and tell of cooling or supply that is too small for the load that was
    sold.

    Fix: have cooling, power supplies and cables looked at where it is named.
    """
    for whole in measure("burn_in"):
        for gpu in whole.gpus:
            observe(gpu, held_share=gpu.held_share)


def test_restarts(measure: Measure, observe: Observe) -> None:
    """Every node is up the whole time: what it calls this boot is the same as before.

    A node that restarts by itself under load, and is back before anybody looks, has failed: the job that ran
    there is lost, and what its counters and its log had to tell.

    Fix: look into its BMC's event log for why; look at power and cooling.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            observe(node, restarted=node.past.rebooted)


def test_xids(measure: Measure, observe: Observe) -> None:
    """NVIDIA's drivers write no serious error into the kernel log while it lasts.

    The log is read before and after: what is new came of the load, and what was there before is judged by
    the audit.

    Fix: drain the node, then do what the finding says for each number.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            log = node.since.log
            observe(node, serious_xids=log.serious_xids, fatal_sxids=log.fatal_sxids)


def test_ras(measure: Measure, observe: Observe) -> None:
    """AMD's driver tells of no error that could not be corrected, no hang and no reset while it lasts.

    Its log and its counters are read before and after: what is new came of the load, and what was there
    before is judged by the audit.

    Fix: drain the node and do what AMD's guide says of the block that is named.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            observe(node, serious=node.since.amdgpu_log.serious)
            for gpu in node.gpus:
                observe(gpu, uncorrected=gpu.since.uncorrected_since_load)


def test_memory(measure: Measure, observe: Observe) -> None:
    """No GPU meets an uncorrectable memory error, and none has rows to be repaired when it is over.

    A row that fails in the first eight hours of load tells more than one that fails in a year, and a repair
    that waits for a reset waits for the next job too.

    Fix: drain the node and reset the GPU; return it where it happens again.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            for gpu in node.gpus:
                observe(gpu, uncorrected=gpu.since.uncorrected)
                observe(gpu, remap_pending=gpu.remap_pending, remap_failed=gpu.remap_failed)


def test_nvlinks(measure: Measure, observe: Observe) -> None:
    """No NVLink loses a packet, sends one again or is trained anew while it lasts.

    Counters are compared with those from before it, so old errors are not held against it. A link that sends
    again slows every collective that crosses it.

    Fix: reset the GPU; where it comes again, have board, switch or cable of the link exchanged.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            for gpu in node.gpus:
                observe(gpu, faults=gpu.since.nvlink_faults)


def test_links(measure: Measure, observe: Observe) -> None:
    """No port of the compute fabric loses its link while it lasts.

    One flap stops a job, however short it is: a transport gives up after seconds, and every rank of the job
    goes with it.

    Fix: clean or exchange cable and transceiver of the port that is named, and look at the switch port.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            for port in node.fabric.ports:
                observe(port, downs=port.since.downs)


def test_symbol_errors(measure: Measure, observe: Observe) -> None:
    """InfiniBand links carry their bits without errors while it lasts.

    A symbol error is one that the link's own correction could not repair, so a packet is sent again. Under
    load a link carries as much as it ever will, and its cable and transceiver are as warm.

    Fix: clean or exchange cable and transceiver of the port that is named, and look at its partner's
    counters.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            for port in node.fabric.ports:
                observe(port, bit_error_rate=port.since.bit_error_rate_loaded)


def test_pcie(measure: Measure, observe: Observe) -> None:
    """The PCIe links of GPUs and network cards lose nothing while it lasts.

    The counters of the devices and of the ports above them are read before and after. A fatal error costs a
    link or a device, and the job with it; one that is not fatal costs a transaction, and mostly the process.

    Fix: drain the node; reseat or exchange the part that is named, its riser, cable or retimer.
    """
    for whole in measure("burn_in"):
        for node in whole.nodes:
            observe(node, fatal=node.since.pci_fatal, nonfatal=node.since.pci_nonfatal)
