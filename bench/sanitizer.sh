# Evaluates the output of compute-sanitizer, for bench/gpu_suite.sh: sourced, and tested without a GPU by tests/bench.

# findings LOG: the number in the tool's own summary. Fails if the log has none: the tool did not finish.
#   ========= ERROR SUMMARY: 3 errors
#   ========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
findings() {
  awk '/^========= (ERROR|RACECHECK) SUMMARY: [0-9]+ (error|hazard)s?( |$)/ { found += $4; seen = 1 }
       END { if (seen) print found; else exit 1 }' "$1"
}

# sanitize TOOL none|some COMMAND...: runs the command under the tool, and fails unless it found nothing, or something.
sanitize() {
  local tool=$1 expected=$2 log found status
  shift 2
  log=$(mktemp)
  compute-sanitizer --tool "$tool" "$@" >"$log" 2>&1
  status=$?
  if ! found=$(findings "$log"); then
    tail -n 20 "$log"
    echo "$tool: no summary, status $status; the tool did not run to its end"
  elif [[ $expected == none && $found != 0 ]]; then
    tail -n 60 "$log"
    echo "$tool: $found findings in: $*"
  elif [[ $expected == some && $found == 0 ]]; then
    tail -n 20 "$log"
    echo "$tool: did not find the planted bug of: $*"
  elif [[ $expected == none && $status != 0 ]]; then
    tail -n 20 "$log"
    echo "$tool: no findings, but the command ended with status $status: $*"
  else
    echo "$tool: $found findings, as expected"
    rm -f "$log"
    return 0
  fi
  rm -f "$log"
  return 1
}
