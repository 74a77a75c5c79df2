"""What every node of a run reports to, and the rules of a run. Out of band, never over the emulated network.

Takes a `RunPlan`, gives how the run ended; touches UNIX sockets and control's log. `control` is the conversation with
nodes in real time. `rules`, `average_rounds` and `stall` decide, without clock or socket, for virtual time as well.
"""
