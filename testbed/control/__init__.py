"""Control: what every node of a run in real time reports to. Out of band, never over the emulated network.

Takes a `RunPlan`, gives how the run ended; touches UNIX sockets and control's log.
"""
