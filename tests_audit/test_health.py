"""What the machines remember of faults."""

from gpuassay.fixtures import Fleet, Observe


def test_row_remaps(fleet: Fleet, observe: Observe) -> None:
    """No GPU waits for a reset to repair its memory, and none is beyond repair.

    Rows of memory that fail are replaced from a spare pool. A replacement that is pending takes effect
    only at a reset; one that failed never will; and a bank whose spares are used up cannot be repaired
    the next time. Rows that were replaced in the past are no fault: the repair has worked.

    Fix: drain the node and reset the GPU to complete a pending repair. Return the GPU if a repair has
    failed; watch one with exhausted banks, and agree beforehand when it goes back.
    """
    for gpu in fleet.gpus:
        observe(gpu, pending=gpu.remap_pending, failed=gpu.remap_failed)
        observe(gpu, banks_exhausted=gpu.remap_banks_exhausted, replaced=gpu.remapped_rows)


def test_xid_history(fleet: Fleet, observe: Observe) -> None:
    """The kernel log knows of no serious GPU fault, and goes back far enough to say so.

    The driver numbers every fault in the kernel log. Serious numbers ask for a reset, a reboot or a
    return; others only tell that a program crashed. A log that begins at this morning's reboot is no
    alibi, so the time it covers is judged too. Lines that a user wrote to test the alarms are told apart.

    Fix: drain the node, then do what the finding says for each number. If the window is short, let the
    node stay up longer, or enlarge the log's buffer (kernel option log_buf_len), and audit again. If the
    log could not be read, record again as root.
    """
    for node in fleet.nodes:
        log = node.kernel_log
        observe(node, window_hours=log.window_hours, written_by_user=log.written_by_user)
        observe(node, serious_xids=log.serious_xids, fatal_sxids=log.fatal_sxids)
        observe(node, application_xids=log.application_xids, unknown_xids=log.unknown_xids)
        observe(node, nonfatal_sxids=log.nonfatal_sxids)


def test_memory_errors(fleet: Fleet, observe: Observe) -> None:
    """No GPU has had a memory error that ECC could not correct since it was last reset.

    An error that cannot be corrected ends the program that meets it, and data written before it was found
    may be wrong. Errors of earlier times that were repaired are no fault; the lifetime count, which never
    goes back, and the errors that were corrected are shown and not counted.

    Fix: drain the node and reset the GPU; see whether rows of its memory were replaced. Return the GPU if
    the errors come back, or if its on-chip memory has had more of them than the vendor allows.
    """
    for gpu in fleet.gpus:
        health = gpu.health
        observe(gpu, uncorrected=health.uncorrected_errors, corrected=health.corrected_errors)
        observe(gpu, lifetime_uncorrected=health.lifetime_uncorrected_errors)
        observe(gpu, sram_threshold_exceeded=health.sram_threshold_exceeded)


def test_recovery_action(fleet: Fleet, observe: Observe) -> None:
    """No GPU asks to be reset, rebooted, repaired or replaced.

    The driver knows when a GPU can only go on after a reset or a reboot, and says so; work that is given to
    it before that is lost. A repair that is pending takes effect at a reset. The InfoROM keeps the history
    of a board's faults: one with wrong checksums works, and its history is not to be believed.

    Fix: drain the node and do what the finding says. Have the vendor flash an InfoROM that is corrupted.
    """
    for gpu in fleet.gpus:
        observe(gpu, asks_for=gpu.health.asks_for, inforom_valid=gpu.health.inforom_valid)


def test_throttling(fleet: Fleet, observe: Observe) -> None:
    """No GPU is held back by its power delivery or by heat.

    A GPU that is short of power or too hot runs at a fraction of its clock, and every job that it takes
    part in runs at its pace, without an error. The power cap of a busy GPU and the low clock of an idle one
    are as they should be and are not counted.

    Fix: with a power brake, look at power supplies, cabling and the rack's power limit; it is a fault of
    the machine or the hall and seldom of the GPU. With heat, look at fans, coolant and air flow.
    """
    for gpu in fleet.gpus:
        now = gpu.condition
        observe(gpu, power_brake=now.power_brake, hw_slowdown=now.hw_slowdown)
        observe(gpu, hw_thermal_slowdown=now.hw_thermal_slowdown)
        observe(gpu, sw_thermal_slowdown=now.sw_thermal_slowdown)


def test_temperature(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is well below the temperature at which its hardware slows it down.

    What counts is the distance to the limit that the GPU itself reports, not a number of degrees: limits
    differ between products. A GPU that is near it has too little cooling for what it is doing, and one that
    is near it while idle is not cooled at all.

    Fix: look at fans, coolant, air flow and blanking panels; then at the GPU's cold plate or heat sink.
    """
    for gpu in fleet.gpus:
        observe(gpu, margin_c=gpu.condition.thermal_margin_c)


def test_idle_power(fleet: Fleet, observe: Observe) -> None:
    """No GPU draws more power than its kind should while it does nothing.

    An idle GPU that draws much more than its like has clocks that are stuck high, or works for somebody who
    cannot be seen from here. One that is at work is not judged: its power says nothing of idling.

    Fix: look for locked clocks and for processes in other containers; reset the GPU if there are none.
    """
    for gpu in fleet.gpus:
        observe(gpu, watts=gpu.condition.idle_power_w)


def test_held_memory(fleet: Fleet, observe: Observe) -> None:
    """No idle GPU's memory is held by a process that does nothing, or by none at all.

    What an earlier user left behind is missing for the next one, whose job then ends for lack of memory.
    Memory that no process holds was lost by the driver, and only a reset of the GPU brings it back.

    Fix: end the processes named here, or find out whose they are. Reset the GPU if there is none.
    """
    for gpu in fleet.gpus:
        observe(gpu, held_mib=gpu.condition.held_mib, orphaned_mib=gpu.condition.orphaned_mib)


def test_page_retirement(fleet: Fleet, observe: Observe) -> None:
    """Every bad page of memory is out of use.

    AMD's GPUs have no spare rows: a page with an error that cannot be corrected is taken out of use for
    good. One that waits for that, or could not be taken out because somebody holds it, may still be given
    to a program. Pages that are out of use are no fault: the repair has worked.

    Fix: drain the node, end what holds the GPU, and reset it. Return the GPU if a page stays as it is, or
    if the driver says that there are more bad pages than AMD allows.
    """
    for gpu in fleet.gpus:
        observe(gpu, pending=gpu.pages_pending, unreservable=gpu.pages_unreservable)


def test_ras_history(fleet: Fleet, observe: Observe) -> None:
    """The kernel log knows of no serious fault of an AMD GPU, and goes back far enough to say so.

    AMD's driver numbers no faults: it writes sentences, of errors that could not be corrected, of hangs
    and of resets. Some of them are the all-clear in nearly the same words. A reset that succeeded ended
    the programs of all GPUs that are linked; one that failed leaves a GPU that nobody can use.

    Fix: drain the node, then do what the finding says. If the window is short, let the node stay up
    longer, or enlarge the log's buffer (kernel option log_buf_len), and audit again. If the log could not
    be read, record again as root.
    """
    for node in fleet.nodes:
        log = node.amdgpu_log
        observe(node, window_hours=log.window_hours, written_by_user=log.written_by_user)
        observe(node, serious=log.serious, recovered=log.recovered)


def test_pcie_errors(fleet: Fleet, observe: Observe) -> None:
    """The PCIe links of GPUs and network cards work without errors, up to the processor.

    A fatal error costs a link or a device, one that is not fatal a transfer. Errors that were corrected do
    no harm but cost time, and many of them come before the others. All are counted since the boot, on the
    GPU, on the network card and on each port above them.

    Fix: drain the node; reseat or replace the part that is named, its riser, cable or retimer. Update its
    firmware if its like on other nodes have the same errors.
    """
    for node in fleet.nodes:
        errors = node.pci_errors
        observe(node, fatal=errors.fatal, nonfatal=errors.nonfatal)
        observe(node, corrected_per_hour=errors.corrected_per_hour)
        observe(node, replays_per_minute=errors.replays_per_minute)


def test_leftovers(fleet: Fleet, observe: Observe) -> None:
    """Nobody has left shared memory full.

    Data loaders and communication libraries put their buffers into /dev/shm, and a job that finds it full
    ends with a bus error. What a killed job leaves there stays until the next boot. While a job is running
    it may be the job's own, and is not judged.

    Fix: have every job's epilog remove what its user left in /dev/shm, or give each job one of its own.
    """
    for node in fleet.nodes:
        observe(node, left_share=node.shared_memory.left_share)
