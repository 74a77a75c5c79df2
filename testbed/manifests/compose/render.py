"""A plan → `docker-compose.yml` and what belongs beside it. Pure, but for the templates that are read."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.catalogue.data_sets import DATA_SETS
from testbed.manifests import Manifest
from testbed.manifests.compose.findings import check, compose_findings
from testbed.manifests.compose.learners import DATA_MOUNT, learners_of, of_all
from testbed.manifests.compose.names import project_name
from testbed.manifests.compose.variables import (
    DATA,
    GROUP,
    IMAGE,
    RESULTS,
    USER,
    VARIABLES,
    Filled,
    dump,
    filled,
    found_in,
)
from testbed.manifests.templates import fill, shell_word
from testbed.plan.containers import (
    FABRIC_SHARES,
    LEARNER_PIDS,
    LEARNER_SHARES,
    LOG_SIZE,
    PART_PIDS,
    PART_SHARES,
    TMP_OPTIONS,
)
from testbed.plan.files import to_text
from testbed.plan.hosts import hosts_of
from testbed.plan.model import RunPlan
from testbed.plan.tcp import settings_of, tcp_of
from testbed.topologies.model import Topology

PLAN_FILE, COMPOSE_FILE, VARIABLES_FILE, README_FILE = "plan.json", "docker-compose.yml", ".env", "README.txt"
_PLAN_MOUNTED_AT = "/testbed/plan.json"


def render(
    plan: RunPlan, *, words: Sequence[str] | None = None, topology: Topology | None = None, file: str = ""
) -> Manifest:
    """Renders the files; `words`: topology and options that make the same plan anywhere, if there are any.

    With `words` the file needs no plan beside it. `topology` is the plan's, with its places in `file`. Raises
    InvalidInput for topologies that no Engine can run.
    """
    given = topology if topology is not None else plan.load_topology()
    file = file or plan.topology_name
    check(given, file)
    learners = learners_of(plan, given)
    run = f"/{plan.run_id}"
    data = DATA_SETS.get(plan.experiment.data.name)
    has_data = data is None or data.is_fetched
    planned = ["--plan", _PLAN_MOUNTED_AT] if words is None else ["--run-id", plan.run_id, *words]
    prepare_mounts = [filled(RESULTS, ":/testbed/results")]
    if has_data:
        prepare_mounts.append(filled(DATA, ":/testbed/data"))
    if words is None:
        prepare_mounts.append(filled(f"./{PLAN_FILE}:{_PLAN_MOUNTED_AT}:ro"))
    control_mounts = [
        filled(RESULTS, f"{run}:/testbed/run"),
        filled(RESULTS, f"{run}/runtime/sockets:/testbed/sockets"),
    ]
    compose = fill(
        "compose-docker-compose.yml.j2",
        dump,
        run_id=plan.run_id,
        image=IMAGE,
        user=USER,
        group=GROUP,
        user_and_group=filled(USER, ":", GROUP),
        prepare=["prepare", *planned],
        prepare_network="bridge" if has_data else "none",
        prepare_mounts=prepare_mounts,
        control_mounts=[*control_mounts, *([DATA_MOUNT] if has_data else [])],
        fabric_mounts=[
            filled(RESULTS, f"{run}/runtime/sockets:/testbed/sockets"),
            filled(RESULTS, f"{run}/engine:/testbed/run/engine"),
            filled(RESULTS, f"{run}/runtime/fabric:/testbed/run/runtime/fabric:ro"),
        ],
        data_mount=DATA_MOUNT if has_data else None,
        settings=_settings(plan),
        hosts=[f"{name}:{address}" for name, address in hosts_of(plan).items()],
        tmp=f"/tmp:{TMP_OPTIONS}",  # noqa: S108 - in a container of its own
        log_size=LOG_SIZE,
        learner_pids=LEARNER_PIDS,
        part_pids=PART_PIDS,
        learner_shares=LEARNER_SHARES,
        part_shares=PART_SHARES,
        fabric_shares=FABRIC_SHARES,
        common=of_all(learners),
        learners=learners,
    )
    files = {
        PLAN_FILE: to_text(plan),
        COMPOSE_FILE: compose,
        VARIABLES_FILE: fill(
            "compose-env.j2",
            shell_word,
            project=project_name(plan.run_id),
            variables=[each for each in VARIABLES if has_data or each is not DATA],
        ),
        README_FILE: fill("compose-README.txt.j2", shell_word, run=plan.run_id, has_data=has_data),
    }
    return Manifest(files, tuple(compose_findings(plan, given, learners)))


def _settings(plan: RunPlan) -> dict[str, Filled]:
    """Kernel settings for learners: /proc/sys is read-only in a container, so the Engine must write them."""
    return {f"net.ipv4.{name}": found_in(value, GROUP) for name, value in settings_of(tcp_of(plan), str(GROUP)).items()}
