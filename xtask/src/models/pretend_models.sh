#!/bin/sh
# Stands in for a test executable in the tests of mutants.rs: called as `--exact NAME ...`, it behaves as the mutant says.
[ "$2" = ring_model::fails_anyway ] && failed=yes
case "$MILLPOND_MUTANT" in
CAUGHT_BY_B.release) [ "$2" = ring_model::b ] && failed=yes ;;
NEVER_CAUGHT.release) ;;
STUCK.release) exec sleep 600 ;;
RUNS_NOTHING.release)
    echo "test result: ok. 0 passed; 0 failed"
    exit 0
    ;;
esac
if [ -n "$failed" ]; then
    echo "thread 'x' panicked at here:1:1:"
    echo "two takers"
    echo "test result: FAILED. 0 passed; 1 failed"
    exit 101
fi
echo "explored 2 executions"
echo "test result: ok. 1 passed; 0 failed"
