#!/usr/bin/env bash
# bench/gpu_suite.sh [BUILD] [OUT]: everything that needs a GPU, in one command of less than ten minutes: the op suite on `cuda`, the four
# tools of compute-sanitizer, each of which must also find a planted bug, 100 training steps twice bit for bit, virtual GPU
# and GPU compared kernel by kernel, and the benchmark against PyTorch. BUILD is a build folder (default build/release);
# results go to OUT (default bench/results). PYTHON names the interpreter, which needs NumPy and pytest.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/release}")
out=$(realpath -m "${2:-bench/results}")
python=${PYTHON:-python3}
mkdir -p "$out"
source bench/sanitizer.sh
export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} STRATA_BUILD_DIR=$build STRATA_TEST_DEVICE=cuda PYTHONDONTWRITEBYTECODE=1
failed=()
part() { # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then echo "-- $name: passed in $((SECONDS - start)) s"; else
    failed+=("$name")
    echo "-- $name: FAILED after $((SECONDS - start)) s"
  fi
}

"$python" -c 'import strata, sys; why = strata.cuda.why_not(); why and sys.exit(f"no GPU: {why}"); print(strata.cuda.get_device_properties())' || exit 3
part "device tests on cuda" "$python" -m pytest -q --maxfail=25 tests/python/test_device*.py
part "determinism" "$python" bench/gpu_checks.py determinism
part "virtual GPU and card" env STRATA_CUBLASLT=none "$python" bench/gpu_checks.py compare
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    bug=("$build/bin/planted_bugs" tests/cuda/driver/planted.ptx "$tool")
    part "$tool finds a planted bug" sanitize "$tool" some "${bug[@]}"
    part "$tool finds nothing where it was mended" sanitize "$tool" none "${bug[@]}" --mended
    part "$tool finds nothing in every kernel" sanitize "$tool" none "$python" bench/gpu_checks.py every-kernel
  done
else
  failed+=("compute-sanitizer is not installed")
fi
part "benchmark" "$python" bench/gpu.py --out "$out"
if ((${#failed[@]})); then
  printf 'gpu_suite: failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "gpu_suite: all parts passed"
