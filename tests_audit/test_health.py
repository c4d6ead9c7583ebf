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
        observe(gpu, banks_exhausted=gpu.remap_banks_exhausted)


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
