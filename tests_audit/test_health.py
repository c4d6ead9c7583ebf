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
