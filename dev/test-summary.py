#!/usr/bin/env python3
"""Counts what passed, failed and was skipped: the small checks and each test inside each test program.

usage: test-summary.py CHECK-LOG MESON-TESTLOG MESON-STATUS
"""
import json
import os
import re
import sys


def count_program(test):
    """Passed, failed, skipped of one line of Meson's log. Programs of cmocka say so for each of their tests."""
    out = test.get("stdout", "") + test.get("stderr", "")
    passed = len(re.findall(r"^\[       OK \]", out, re.M))
    skipped = len(re.findall(r"^\[  SKIPPED \] \S+$", out, re.M))
    result = test["result"]
    if result == "SKIP":
        return 0, 0, 1
    if result in ("OK", "EXPECTEDFAIL"):
        return (passed or (0 if skipped else 1)), 0, skipped
    named = set(re.findall(r"^\[  FAILED  \] (\w+)", out, re.M))
    return passed, max(1, len(named)), skipped


def main():
    checks, testlog, status = sys.argv[1:4]
    passed = failed = skipped = 0
    with open(checks, encoding="utf-8") as f:
        for line in f:
            passed += bool(re.match(r"check \w+: ok$", line))
            failed += bool(re.match(r"check \w+: failed$", line))
    if os.path.exists(testlog):
        with open(testlog, encoding="utf-8") as f:
            for line in f:
                p, n, s = count_program(json.loads(line))
                passed, failed, skipped = passed + p, failed + n, skipped + s
    if int(status) != 0 and failed == 0:
        failed = 1  # the tests could not even be run
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


main()
