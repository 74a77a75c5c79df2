"""Results of a run, from what its nodes wrote.

Takes run directories, gives results and tables; reads files, writes none. Nothing here fails on what a crash leaves:
whatever cannot be read is a problem in the result, and the rest is summarised.

    json_lines      a file of JSON lines   -> batches of records, and a tally of lines that are no records
    journal         a node's journal       -> JournalResult
    control         control's log          -> ControlEvents
    plan_head       plan.json              -> PlanHead: the little that a summary needs of it
    run             a run directory        -> RunResult
    manual_actions  a run directory        -> what people did to the run
    health          a run directory        -> whether it was valid, and the bytes on the wire
    notes           a RunResult            -> what to know before trusting its numbers
    time_to_target  evaluations            -> time and bytes to an accuracy, and how exactly they are known
    summary         a RunResult            -> RunSummary
    repetition      a plan                 -> what makes two runs repetitions of one another, and what differs
    grouping        runs                   -> groups that differ only in seed, with intervals
    tables          results                -> rows for programs
    text_tables     results                -> short tables for a terminal
"""
