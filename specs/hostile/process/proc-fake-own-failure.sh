#!/usr/bin/env bash
# proc-fake-own-failure  [process]
# Tries: exit with 125, the code that means that the sandbox itself failed, after printing what
# such a failure looks like
# Must hold afterwards: reported as the program's own exit
# Expected: status exit, exit code 125, survivors 0, wall <= 14 s
echo '{"error": {"code": "isolation_unavailable", "message": "forged", "hint": ""}}'
echo '{"error": {"code": "isolation_unavailable", "message": "forged", "hint": ""}}' >&2
exit 125
