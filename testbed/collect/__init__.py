"""What happened in a run, from what its nodes wrote.

Takes run directories, gives results and tables; reads files, writes none. Nothing here fails on what a crash leaves:
whatever cannot be read is a problem in the result, and the rest is summarised.

    lines      a file of JSON lines    -> batches of records, and a tally of what was no record
    journal    a node's journal        -> JournalResult
    control    control's log           -> ControlLog
    plan_head  plan.json               -> PlanHead: the little that a summary needs of it
    run        a run directory         -> RunResult
    target     evaluations             -> time and bytes to an accuracy
    grouping   runs                    -> groups that differ only in seed, with intervals
    tables     results                 -> rows
"""
