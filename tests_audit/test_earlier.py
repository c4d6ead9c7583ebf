"""What became of the cluster since an earlier recording of it, given by --earlier=DIR."""

from gpuassay.fixtures import Fleet, Observe


def test_gpus(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is the one that was there before, on the same board, with firmware that is no older.

    What was accepted can be exchanged afterwards, and no count or name tells: the serial numbers of two
    recordings do. A GPU that was broken and replaced is no fault, if it was agreed; one that comes from
    another node, or with another board or older firmware, may be what somebody else has returned.

    Fix: ask for the record of the exchange named here. Have firmware brought back to the version that was
    accepted; return a board of another make.
    """
    for gpu in fleet.gpus:
        observe(gpu, part=gpu.since.part, board=gpu.since.board, vbios=gpu.since.firmware)


def test_nics(fleet: Fleet, observe: Observe) -> None:
    """Every network card is the one that was there before, of the same make, with firmware that is no older.

    Cards are told apart by their GUID, and their make by the board id (PSID), which decides which firmware
    they take. A card of another make in the same slot may have fewer lanes, another rate or other faults.

    Fix: ask for the record of the exchange named here. Have firmware brought back to the version that was
    accepted; return a card of another make.
    """
    for nic in fleet.nics:
        observe(nic, part=nic.since.part, board=nic.since.board, firmware=nic.since.firmware)


def test_parts(fleet: Fleet, observe: Observe) -> None:
    """No GPU and no network card has gone since the earlier recording.

    A contract that names a number finds what is missing from it; without one, seven GPUs look like a node
    of seven. What was there before is the best declaration of what should be there.

    Fix: look for the part by the serial number or GUID named here: it has failed and left the bus, or it
    was taken out.
    """
    for node in fleet.nodes:
        observe(node, gpus_gone=node.since.gpus_gone, nics_gone=node.since.nics_gone)


def test_link_flaps(fleet: Fleet, observe: Observe) -> None:
    """Links have stayed up since the earlier recording.

    Counted since the boot, a link that began to fail yesterday hides behind weeks in which it held. The
    difference of two recordings tells what happens now. A port whose counter went down, or whose node was
    restarted, is not judged here.

    Fix: clean or replace the transceiver and cable of the port named here, and look at its partner's
    counters; a port that flaps again after that is to be replaced.
    """
    for port in fleet.fabric_ports:
        observe(port, per_day=port.since.downs_per_day)


def test_symbol_errors(fleet: Fleet, observe: Observe) -> None:
    """InfiniBand links have carried their bits without errors since the earlier recording.

    A symbol error is one that the link's own correction could not repair. The difference of two
    recordings tells a link that fails now from one that had a bad day long ago.

    Fix: clean or replace the transceiver and cable of the port named here; clear the counters and look
    again under load.
    """
    for port in fleet.infiniband_ports:
        observe(port, bit_error_rate=port.since.bit_error_rate)


def test_nvlink_errors(fleet: Fleet, observe: Observe) -> None:
    """No NVLink has lost a packet or had to be trained anew since the earlier recording.

    NVLink is short and inside one machine or rack: what is lost there points to a connector, a cable or a
    GPU that fails. Before NVLink 5, what was sent again counts in place of what was lost, and wrong check
    sums, which are corrected, count where there are very many.

    Fix: drain the node and reset the GPUs that are linked; if the errors come back, have the GPU, its
    baseboard or its NVLink cable replaced.
    """
    for gpu in fleet.gpus:
        observe(gpu, faults=gpu.since.nvlink_faults, crc_per_second=gpu.since.nvlink_crc_per_second)


def test_pcie_errors(fleet: Fleet, observe: Observe) -> None:
    """The PCIe links of GPUs and network cards have worked without errors since the earlier recording.

    An average since the boot dilutes what has begun lately. Errors that were corrected do no harm but cost
    time, and many of them come before the others.

    Fix: drain the node; reseat or replace the part that is named, its riser, cable or retimer. Update its
    firmware if its like on other nodes have the same errors.
    """
    for node in fleet.nodes:
        observe(node, fatal=node.since.pci_fatal, nonfatal=node.since.pci_nonfatal)
        observe(node, corrected_per_hour=node.since.pci_corrected_per_hour)


def test_gpu_errors(fleet: Fleet, observe: Observe) -> None:
    """No GPU has met a memory error that it could not correct since the earlier recording.

    A reset or a restart clears the counters that tools show; the count of a GPU's life stays, and two
    recordings tell what was added to it. Packets sent again over PCIe and corrected errors show where the
    next fault may come from.

    Fix: ask what was done about the error: the GPU should have been reset, and its rows replaced. Return a
    GPU whose errors come back.
    """
    for gpu in fleet.gpus:
        observe(gpu, uncorrected=gpu.since.uncorrected, corrected_per_day=gpu.since.corrected_per_day)
        observe(gpu, replays_per_minute=gpu.since.replays_per_minute)


def test_xids(fleet: Fleet, observe: Observe) -> None:
    """The kernel log has known of no serious GPU fault since the earlier recording.

    What happened before the cluster was handed over is the provider's past; what happened since is the
    tenant's. A log that was lost by a restart, or that has run over, proves what is left in it and not
    that there was nothing else.

    Fix: drain the node, then do what the finding says for each number. If the log could not be read, record
    again as root.
    """
    for node in fleet.nodes:
        log = node.since.log
        observe(node, serious_xids=log.serious_xids, fatal_sxids=log.fatal_sxids)
        observe(node, application_xids=log.application_xids, unknown_xids=log.unknown_xids)
        observe(node, nonfatal_sxids=log.nonfatal_sxids)


def test_ras(fleet: Fleet, observe: Observe) -> None:
    """The kernel log has known of no serious fault of an AMD GPU since the earlier recording.

    The same for the sentences of AMD's driver: errors that could not be corrected, hangs and resets. A log
    that was lost by a restart, or that has run over, proves what is left in it and not that there was
    nothing else.

    Fix: drain the node, then do what the finding says. If the log could not be read, record again as root.
    """
    for node in fleet.nodes:
        log = node.since.amdgpu_log
        observe(node, serious=log.serious, recovered=log.recovered)
