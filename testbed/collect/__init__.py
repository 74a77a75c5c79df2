"""What happened in a run, from what its nodes wrote.

Takes run directories, gives results and tables; reads files, writes none. Nothing here fails on what a crash leaves:
whatever cannot be read is a problem in the result, and the rest is summarised.

    lines      a file of JSON lines    -> batches of records, and a tally of what was no record
    journal    a node's journal        -> JournalResult
    control    control's log           -> ControlLog
    plan_head  plan.json               -> PlanHead: the little that a summary needs of it
    run        a run directory         -> RunResult
    averages   a RunResult             -> the average of models that stands for it
    by_hand    a run directory        -> what people did to it
    health     a run directory        -> whether it was what its plan says
    notes      a RunResult             -> what to know before believing its numbers
    target     evaluations             -> time and bytes to an accuracy, and how exactly they are known
    repetition a plan                  -> what makes two runs repetitions of one another, and what differs
    grouping   runs                    -> groups that differ only in seed, with intervals
    folders    a folder of runs        -> folders of runs in it
    tables     results                 -> rows
"""
