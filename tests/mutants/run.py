#!/usr/bin/env python3
"""Puts faults into the ledger, one at a time, and sees that the tests find them.

    tests/mutants/run.py              all of mutants.txt
    tests/mutants/run.py WORD...      those whose names have one of the words
    tests/mutants/run.py --part I/N   every Nth, from the Ith on: what CI runs
    tests/mutants/run.py --find ...   runs all the ledger's tests, and says which one fails first

The sources are copied to a directory of their own, built there, and changed there. Each fault is
one file to compile and one program to link: 7 to 12 s each on two cores, up to 50 s on a busy
machine, and 20 to 40 s before the first with what ccache has of the preset dev.
Ends with 1 where a fault is not found by its test, is not text that its file has exactly once, or
does not compile, which it must without warnings.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
# By how soon each is through.
PROGRAMS = {
    "ledger_test": "tests/unit/ledger/ledger_test",
    "prefix_test": "tests/unit/prefix/prefix_test",
    "eviction_test": "tests/unit/eviction/eviction_test",
    "ledger_model_test": "tests/model/ledger/ledger_model_test",
    "ledger_exhaustive_test": "tests/model/exhaustive/ledger_exhaustive_test",
}
# A fault may be an endless loop.
TEST_SECONDS = 120
# Takes as long as all others together, and is not tried by --find.
SLOW = ["~Answers that name the same blocks over and over make room for each other"]


class Mutant:
    def __init__(self, name):
        self.name = name
        self.file = ""
        self.old = []
        self.new = []
        self.program = ""
        self.test = ""


def read_mutants(path):
    mutants = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if not line or mark == "#":
            continue
        if mark == "=":
            mutants.append(Mutant(rest))
        elif mark == "-":
            mutants[-1].old.append(rest)
        elif mark == "+":
            mutants[-1].new.append(rest)
        elif mark == "?":
            mutants[-1].program, _, mutants[-1].test = rest.partition(" ")
        elif line.startswith("core/"):
            mutants[-1].file = line
        else:
            sys.exit(f"{path}:{number}: {line!r} is nothing that belongs here")
    return mutants


def apply(mutant, tree):
    """Writes the fault, and returns what was there."""
    path = tree / mutant.file
    text = path.read_text()
    old = "\n".join(mutant.old)
    count = text.count(old)
    if count != 1:
        raise ValueError(f"{mutant.file} has its text {count} times")
    path.write_text(text.replace(old, "\n".join(mutant.new)))
    return text


def build(tree, programs):
    return subprocess.run(
        ["ninja", "-C", str(tree / "build/dev"), *[PROGRAMS[each] for each in programs]],
        capture_output=True, text=True)


def prepare(tree, programs):
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git"))
    # As the preset dev, so that what ccache has of that is not compiled again.
    subprocess.run(["cmake", "--preset", "dev"], cwd=tree, check=True, capture_output=True)
    result = build(tree, programs)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)


def spec(test):
    """A test case by its name alone, whatever is in it."""
    return re.sub(r"([\[\],\\*])", r"\\\1", test)


def run(tree, program, test):
    """How the test ends; None where it runs for too long, as in an endless loop."""
    command = [str(tree / "build/dev" / PROGRAMS[program])] + ([spec(test)] if test else [])
    try:
        return subprocess.run(command, capture_output=True, timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def find(tree):
    """The first test case of all that fails, with its program; none where they do not compile."""
    for program, path in PROGRAMS.items():
        if build(tree, [program]).returncode != 0:
            return None
        try:
            result = subprocess.run([str(tree / "build/dev" / path), "-r", "xml", "--abort",
                                     *SLOW], capture_output=True, text=True, timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return program, "(runs for ever)"
        if result.returncode == 0:
            continue
        names = re.findall(r'<TestCase name="([^"]*)"', result.stdout)
        name = xml.etree.ElementTree.fromstring(f'<n a="{names[-1]}"/>').get("a") if names else ""
        return program, name
    return "", ""


def chosen(mutants, arguments):
    if arguments.part:
        first, count = (int(each) for each in arguments.part.split("/"))
        return mutants[first::count]
    words = arguments.words
    return [each for each in mutants if not words or any(word in each.name for word in words)]


def judge(mutant, tree, finds):
    """What became of the fault, and whether it was found."""
    try:
        original = apply(mutant, tree)
    except ValueError as error:
        return str(error), False
    try:
        result = build(tree, ["ledger_test" if finds else mutant.program])
        if result.returncode != 0:
            errors = [line for line in result.stdout.splitlines() if "error" in line]
            return "does not compile: " + " ".join(errors[:1]), False
        if finds:
            program, test = find(tree)
            return f"? {program} {test}" if program else "SURVIVES all tests", bool(program)
        result = run(tree, mutant.program, mutant.test)
        if result is not None and result.returncode == 0:
            return f"SURVIVES {mutant.program}: {mutant.test}", False
        if result is not None and b"No test cases matched" in result.stdout + result.stderr:
            return f"{mutant.program} has no test case {mutant.test!r}", False
        return f"{mutant.program}: {mutant.test}", True
    finally:
        (tree / mutant.file).write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--part")
    parser.add_argument("--find", action="store_true")  # A long run is no find: look yourself.
    arguments = parser.parse_args()
    mutants = chosen(read_mutants(ROOT / "tests/mutants/mutants.txt"), arguments)
    begin = time.monotonic()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="kvpool-mutants-") as directory:
        tree = pathlib.Path(directory) / "kvpool"
        programs = ["ledger_test"] if arguments.find else sorted({each.program for each in mutants})
        prepare(tree, programs)
        for program in [] if arguments.find else programs:
            for test in sorted({each.test for each in mutants if each.program == program}):
                result = run(tree, program, test)
                if result is None or result.returncode != 0:
                    sys.exit(f"{program}: {test}: fails without a fault, or is not there")
        print(f"{time.monotonic() - begin:7.1f} s  built", flush=True)
        for mutant in mutants:
            started = time.monotonic()
            text, is_found = judge(mutant, tree, arguments.find)
            missed += not is_found
            print(f"{time.monotonic() - started:7.1f} s  {mutant.name}\n           {text}",
                  flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} faults found in "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
