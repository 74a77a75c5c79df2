"""The command as its users meet it: exit codes, where the words go, wrong input, interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.cli.verbs import HIDDEN, VERBS
from testbed.topologies.load import load
from tests.cli.in_process import command as run

BAD = "services: {a: {replicas: 0}}\n"
GOOD = "services: {a: {replicas: 2}}\nbridges: [r]\nlinks: [{from: a, to: r, latency: 1ms, rate: 1Mbps}]\n"
READING = [["validate"], ["show"], ["paths"], ["convert", "-o", "out.xml"], ["draw", "-o", "out.svg"]]


def command(verb: list[str], file: str) -> Result:
    return run(verb[0], file, *verb[1:])


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert f"testbed {verb}" in result.stdout.split("Usage:")[1]
    assert "Example" in result.stdout
    assert verb in run("--help").stdout


def test_the_help_of_all_verbs_says_what_each_says_of_itself() -> None:
    context = click.Context(main)
    for verb, sentence in VERBS.items():
        own = main.get_command(context, verb)
        assert own is not None
        assert own.get_short_help_str(limit=1000) == sentence
        assert not own.hidden
    for verb in HIDDEN:
        own = main.get_command(context, verb)
        assert own is not None
        assert own.hidden
        assert f"  {verb} " not in run("--help").stdout


@pytest.mark.parametrize("verb", ["generate", "link", "fault", "data"])
def test_what_is_below_a_verb_does_too(verb: str) -> None:
    command = main.get_command(click.Context(main), verb)
    assert isinstance(command, click.Group)
    for name in command.commands:
        result = run(verb, name, "--help")
        assert result.exit_code == 0
        example = result.stdout.partition("Example")[2]
        assert f"testbed {verb} {name}" in example, name


def test_the_help_has_whole_sentences_and_the_way_of_a_run() -> None:
    for arguments in (["--help"], ["data", "--help"]):
        shown = run(*arguments).stdout
        commands = " ".join(shown.split("Commands:")[1].split())
        assert "..." not in commands
        assert commands.endswith(".")
    example = run("--help").stdout
    assert "testbed deploy topologies/wan16.xml" in example
    assert "testbed collect results/" in example


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["colect"], "collect"),
        (["deplyo", "x"], "deploy"),
        (["data", "lst"], "list"),
        (["generate", "rng"], "ring"),
        (["fault", "crahs", "x"], "crash"),
    ],
)
def test_a_mistyped_verb_gets_a_suggestion(arguments: list[str], meant: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert f"did you mean `{meant}`?" in result.stderr
    assert run("--nonsense").exit_code == 2


@pytest.mark.parametrize("verb", READING, ids=lambda verb: verb[0])
def test_a_bad_file_is_told_completely_on_stderr(verb: list[str]) -> None:
    result = command(verb, "bad.yaml")
    assert result.exit_code == 3
    assert "bad.yaml:1:26: error: replicas: this must be at least 1, not 0 (bad-value)" in result.stderr
    assert not Path(verb[-1]).exists()


@pytest.mark.parametrize("verb", READING, ids=lambda verb: verb[0])
@pytest.mark.parametrize("file", ["none.yaml", "good.txt", ".", "topologies/none.xml", "a\0b.yaml"])
def test_what_is_not_there_is_a_usage_error(verb: list[str], file: str) -> None:
    Path("good.txt").write_text(GOOD)
    result = command(verb, file)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr.startswith("Error: ") or "using the bundled" in result.stderr


@pytest.mark.parametrize("verb", READING, ids=lambda verb: verb[0])
def test_a_good_file_and_a_bundled_one(verb: list[str]) -> None:
    assert command(verb, "good.yaml").exit_code == 0
    bundled = command(verb, "topologies/lan4.xml")
    assert bundled.exit_code == 0
    assert "lan4.xml" in bundled.stderr


def test_a_file_of_ones_own_comes_before_the_bundled_one() -> None:
    Path("topologies").mkdir()
    Path("topologies/lan4.xml").write_text("<oops/>")
    assert run("validate", "topologies/lan4.xml").exit_code == 3


def test_an_unreadable_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    result = run("validate", "good.yaml")
    assert result.exit_code == 2
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize(
    "verb", [["validate", "topologies/wan16.xml"], ["show", "topologies/wan16.xml"], ["topologies"]]
)
def test_json_goes_to_stdout_alone(verb: list[str]) -> None:
    result = run(*verb, "--format", "json")
    json.loads(result.stdout)
    csv = run(*verb, "--format", "csv").stdout.splitlines()
    assert len({line.count(",") for line in csv if '"' not in line}) == 1


def test_a_moment_can_be_looked_at() -> None:
    Path("events.yaml").write_text(GOOD + "events: [{at: 5s, link: [a, r], latency: 7ms}]\n")
    for at, latency_ms in (("4s", 2.0), ("5s", 14.0)):
        paths = json.loads(run("paths", "events.yaml", "--at", at, "--format", "json").stdout)["paths"]
        assert {path["latency_ms"] for path in paths} == {latency_ms}
        shown = json.loads(run("show", "events.yaml", "--at", at, "--format", "json").stdout)
        assert shown["paths"]["latency_ms"]["max"] == latency_ms
    refused = run("paths", "events.yaml", "--at", "5")
    assert refused.exit_code == 2
    assert "no unit" in refused.stderr


def test_show_tells_links_and_events_in_the_language() -> None:
    shown = run("show", "topologies/churn16.yaml").stdout
    assert "  {from: " in shown
    assert "do: crash" in shown


def test_convert_both_ways() -> None:
    assert run("convert", "topologies/wan16.xml", "-o", "wan16.yaml").exit_code == 0
    assert run("convert", "wan16.yaml", "-o", "again.xml").exit_code == 0
    assert load("wan16.yaml").require() == load("again.xml").require()


def test_convert_refuses_with_the_reason_and_leaves_the_old_file() -> None:
    Path("queue.yaml").write_text(GOOD.replace("rate: 1Mbps", "rate: 1Mbps, queue: 10ms"))
    Path("out.xml").write_text("old")
    result = run("convert", "queue.yaml", "-o", "out.xml")
    assert result.exit_code == 3
    assert "queue.yaml:3:9: error: Kollaps' XML cannot say how long a queue is" in result.stderr
    assert Path("out.xml").read_text() == "old"


def test_convert_to_a_place_that_is_not_there() -> None:
    assert run("convert", "good.yaml", "-o", "nowhere/out.xml").exit_code == 2
    assert run("convert", "good.yaml", "-o", "out.txt").exit_code == 2


@pytest.mark.processes
def test_a_reader_that_stops_reading_is_no_error_of_ours() -> None:
    testbed = subprocess.Popen(
        [sys.executable, "-m", "testbed", "paths", "topologies/wan256.xml", "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert testbed.stdout is not None
    assert testbed.stderr is not None
    testbed.stdout.readline()
    testbed.stdout.close()
    words = testbed.stderr.read()
    testbed.wait(timeout=60)
    testbed.stderr.close()
    assert "Traceback" not in words
    assert testbed.returncode == 141


@pytest.mark.processes
def test_interrupted_means_130_and_no_traceback() -> None:
    # The tests' parent may ignore SIGINT (nohup, a background job), and children would inherit that.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from testbed.cli.main import main; main(['paths', 'topologies/wan1024.xml', '--format', 'csv'])"
    )
    testbed = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert testbed.stdout is not None
    testbed.stdout.readline()  # it is at work, and blocks as soon as the pipe is full
    time.sleep(0.1)
    testbed.send_signal(signal.SIGINT)
    _output, words = testbed.communicate(timeout=60)
    assert testbed.returncode == 130
    assert "Traceback" not in words
    assert "interrupted" in words


@pytest.mark.parametrize("words", [["show", "good.yaml"], ["--help"], ["schema"]])
@pytest.mark.processes
def test_a_full_disk_is_told(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "testbed", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot write the output" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.processes
def test_the_exit_code_does_not_depend_on_anybody_listening(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full:
        bad = subprocess.run([sys.executable, "-m", "testbed", "show", "bad.yaml"], stdout=full, stderr=full)
    assert bad.returncode == 3
    closed = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'testbed', 'schema'])"
    assert subprocess.run([sys.executable, "-c", closed], stderr=subprocess.PIPE).returncode == 0


def test_the_output_of_a_flood_is_bounded() -> None:
    links = "".join("- {from: a, to: zz, latency: 1, rate: 1Mbps}\n" for _ in range(5000))
    Path("flood.yaml").write_text("services: {a: }\nlinks:\n" + links)
    for verb in (["show"], ["validate"]):
        assert len(command(verb, "flood.yaml").stderr.splitlines()) < 250
    found = json.loads(run("validate", "flood.yaml", "--format", "json").stdout)["findings"]
    kinds = Counter(finding["code"] for finding in found)
    assert kinds == {"unknown-name": 1000, "bad-value": 1000, "many-more": 2}


def test_a_file_cannot_drive_the_terminal() -> None:
    Path("esc.yaml").write_text('services: {a: {image: "x\\e]0;owned\\a"}, "b\\e[31m": }\n')
    result = run("validate", "esc.yaml")
    assert result.exit_code == 3
    assert "\x1b" not in result.output


def test_convert_replaces_what_is_there_as_its_help_says() -> None:
    Path("out.yaml").write_text("another topology")
    assert run("convert", "topologies/wan16.xml", "-o", "out.yaml").exit_code == 0
    assert "another" not in Path("out.yaml").read_text()
    assert "A file that is there is replaced" in " ".join(run("convert", "--help").stdout.split())


def test_convert_does_not_overwrite_its_input() -> None:
    assert run("convert", "good.yaml", "-o", "./good.yaml").exit_code == 2
    assert Path("good.yaml").read_text() == GOOD


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = CliRunner().invoke(main, ["validate", "bad.yaml"], color=True)
    assert "\x1b[" in coloured.stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(main, ["validate", "bad.yaml"], color=True).stderr
