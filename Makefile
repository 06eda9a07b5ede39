# `make help` lists the targets. The build itself uses CMake: see CMakePresets.json.
JOBS          ?= $(shell nproc)
PRESET        ?= release
CUDA_ARCHS    ?= native
SIMD          ?= native
STRATA_WERROR ?= OFF

BUILD  := build/$(PRESET)
PYTHON := .venv/bin/python
ENV    := PYTHONPATH=$(CURDIR)/$(BUILD)/python STRATA_BUILD_DIR=$(CURDIR)/$(BUILD)
TRAIN  := $(BUILD)/bin/strata train
# Not through cmake --build: a make that is stopped would leave the compilers running.
NINJA  := exec env NINJA_STATUS='[%f/%t %es] ' ninja -C $(BUILD) -j $(JOBS)
# A feature that this version does not have: one sentence, status 3.
absent  = @echo "make $@: $(1)" >&2; exit 3

.DEFAULT_GOAL := help
.PHONY: help run test test-cpp test-python check named bench lint tidy format docs clean setup build package configure wheel \
        asan asan-python tsan fuzz attack packages verify train-cpu train-cuda train-vgpu train-mps export-onnx trt-benchmark

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: JOBS=$(JOBS) PRESET=$(PRESET) (release, dev, asan, tsan) CUDA_ARCHS=$(CUDA_ARCHS) (90a, all: for a distribution) SIMD=$(SIMD) (native, all) STRATA_WERROR=$(STRATA_WERROR)"

# --- use -------------------------------------------------------------------------------------------------------------
# Takes some seconds on the virtual GPU.
FEW_STEPS := --device vgpu --batch-size 32 --limit 128 --test-limit 64 --schedule constant --counters

run: package ## Build, train a small network for one epoch and a few steps on the virtual GPU, print where the results are
	@$(TRAIN) --epochs 1 --out results
	@printf '\nThe kernels for NVIDIA GPUs, a few steps on the virtual one inside this process:\n'
	@$(TRAIN) $(FEW_STEPS) --no-download --out results/vgpu || test $$? = 3  # 3: built without CUDA kernels
	@echo
	@echo "Look at results/plot.svg. What to try next:"
	@echo "  $(BUILD)/bin/strata train --epochs 5                      99% and more"
	@echo "  $(BUILD)/bin/strata explain conv2d 'f(8,3,32,32), f(16,3,3,3)' --backward"
	@echo "  PYTHONPATH=$(BUILD)/python $(PYTHON) -c 'import strata; print(strata.randn(2, 3))'"
	@echo "  docs/usage/tour.md, examples/, make test, make bench"

train-cpu: package ## Train the small network on the CPU (TRAIN_ARGS="--epochs 5")
	@$(TRAIN) --out results --device cpu $(TRAIN_ARGS)
train-cuda: package ## Train the small network on an NVIDIA GPU
	@$(TRAIN) --out results --device cuda $(TRAIN_ARGS)
train-vgpu: package ## Train the small network for some steps on the virtual GPU, and print its counters
	@$(TRAIN) --out results/vgpu $(FEW_STEPS) $(TRAIN_ARGS)

bench: build ## Measure, compared with PyTorch if it is installed
	@test -f bench/run.py || { echo "make bench: bench/run.py is not in this checkout; \`make test\` shows what works." >&2; exit 3; }
	@$(ENV) $(PYTHON) bench/run.py $(BENCH_ARGS)
	@$(ENV) $(PYTHON) bench/run_networks.py $(BENCH_ARGS)
	@$(ENV) $(PYTHON) bench/sweeps.py

# --- build -----------------------------------------------------------------------------------------------------------
setup: ## Install what is missing (system packages, .venv)
	@tools/setup

# Configures if there is no build tree, or STRATA_WERROR, CUDA_ARCHS or SIMD has changed; Ninja detects all other changes. The
# default is machine code for the GPUs and the CPU of this machine: that for all architectures takes four more minutes.
configure: setup
	@if [ ! -f $(BUILD)/build.ninja ] || ! grep -qx 'STRATA_SIMD:[A-Z]*=$(SIMD)' $(BUILD)/CMakeCache.txt || ! grep -qx 'STRATA_WERROR:BOOL=$(STRATA_WERROR)' $(BUILD)/CMakeCache.txt \
	    || { grep -q '^STRATA_CUDA_ARCHS:' $(BUILD)/CMakeCache.txt && ! grep -qx 'STRATA_CUDA_ARCHS:[A-Z]*=$(CUDA_ARCHS)' $(BUILD)/CMakeCache.txt; }; then \
	  echo "configuring $(BUILD)"; \
	  cmake --preset $(PRESET) --log-level=WARNING -DSTRATA_WERROR=$(STRATA_WERROR) -DSTRATA_CUDA_ARCHS=$(CUDA_ARCHS) -DSTRATA_SIMD=$(SIMD) >/dev/null; \
	fi

build: configure ## Build (PRESET=release)
	@$(NINJA)

# What a user runs, without tests and benchmarks.
package: configure
	@$(NINJA) strata_python strata_command strata_onednn

# CXX: the same name as in the other build trees; otherwise ccache would compile everything again.
wheel: setup ## Build the Python wheel into dist/
	@CXX=$${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m build --wheel --no-isolation --outdir dist -C cmake.define.STRATA_WERROR=$(STRATA_WERROR) -C cmake.define.STRATA_KERNELS_FROM= .

# --- test ------------------------------------------------------------------------------------------------------------
test: test-cpp test-python ## Build and run all tests (ctest, then pytest)

test-cpp: build
	@ctest --test-dir $(BUILD) -LE python --output-on-failure --no-tests=error -j $(JOBS)

test-python: build
	@if [ -n "$$(find tests -name 'test_*.py' -print -quit)" ]; then \
	  $(ENV) PYTHONDONTWRITEBYTECODE=1 STRATA_JOBS=$(JOBS) $(PYTHON) -m pytest -q -n $(JOBS) --dist loadfile $(PYTEST_ARGS) tests; \
	else echo "no Python tests in this checkout"; fi

# The loop of somebody who writes an op or a module: C++ tests and benchmarks are not built.
check: named package ## While writing an op or module: build, write the reference, run its Python tests, lint (NAME="glu or nansum")
	@$(NINJA) module_parity
	@$(ENV) $(PYTHON) tools/gen_docs.py
	@$(ENV) PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m pytest -q $(PYTEST_ARGS) -k "$(NAME) or test_languages or every_module" \
	  tests/python tests/docs
	@JOBS=$(JOBS) tools/lint $(BUILD)

named:
	@test -n "$(NAME)" || { echo 'make check: which tests? NAME=glu runs those with glu in their name' >&2; exit 2; }

verify: build ## Examine this machine, and compare an NVIDIA GPU with the virtual GPU, op by op
	@$(BUILD)/bin/strata doctor || test $$? = 1  # warnings: go on
	@$(ENV) $(PYTHON) bench/gpu_checks.py compare

asan tsan: ## Run the C++ tests under AddressSanitizer+UBSan, or ThreadSanitizer
	@$(MAKE) --no-print-directory test-cpp PRESET=$@

# Python itself is not instrumented, so it must load the sanitizers' runtime first; libstdc++ too, whose exceptions that runtime
# intercepts. Memory that Python keeps until exit is not a leak.
RUNTIME = $(shell for l in libasan.so libubsan.so libstdc++.so; do $${CXX:-c++} -print-file-name=$$l; done)
SANITIZED = LD_PRELOAD="$(strip $(RUNTIME))" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_segv=1 \
            UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc
asan-python: ## Run the Python tests under AddressSanitizer+UBSan (PYTEST_ARGS="-k pool")
	@$(MAKE) --no-print-directory build PRESET=asan
	@PYTHONPATH=$(CURDIR)/build/asan/python STRATA_BUILD_DIR=$(CURDIR)/build/asan PYTHONDONTWRITEBYTECODE=1 STRATA_JOBS=$(JOBS) \
	  $(SANITIZED) $(PYTHON) -m pytest -q $(or $(PYTEST_ARGS),tests/python tests/attack)

# New seeds each time; every finding is printed with the command that reproduces it. See docs/internals/testing.md.
ATTACK_CALLS ?= 300000
ATTACK_PROGRAMS ?= 10000
ATTACK_SEED ?= $(shell date +%s)
PEER_PYTHON ?= $(PYTHON)
attack: build ## Attack every callable with hostile arguments and compare random programs (ATTACK_CALLS, ATTACK_PROGRAMS, ATTACK_SEED, PEER_PYTHON with PyTorch)
	@status=0; \
	$(ENV) $(PYTHON) tests/attack/calls.py --calls $(ATTACK_CALLS) --seed $(ATTACK_SEED) --jobs $(JOBS) || status=1; \
	STRATA_ATTACK_SEED=$(ATTACK_SEED) STRATA_ATTACK_CALLS=$(ATTACK_CALLS) $(BUILD)/bin/ops_test --gtest_filter='Hostile.*' || status=1; \
	$(ENV) $(PEER_PYTHON) tests/attack/differential.py --programs $(ATTACK_PROGRAMS) --seed $(ATTACK_SEED) --jobs $(JOBS) || status=1; \
	$(ENV) $(PYTHON) tests/attack/compiled.py --programs $(ATTACK_PROGRAMS) --seed $(ATTACK_SEED) --device cpu || status=1; \
	if $(PEER_PYTHON) -c 'import torch' 2>/dev/null; then $(ENV) $(PEER_PYTHON) tests/attack/histories.py --histories 2000 --seed $(ATTACK_SEED) || status=1; fi; \
	exit $$status

# PACKAGES_PYTHON has the packages and no PyTorch, PEER_PYTHON the same packages with PyTorch. See docs/internals/ecosystem.md.
PACKAGES_PYTHON ?= $(PYTHON)
packages: package ## Run widely used packages with Strata in the place of torch, and compare models (PACKAGES_PYTHON, PEER_PYTHON with PyTorch)
	@status=0; $(ENV) $(PACKAGES_PYTHON) tests/packages/run.py || status=1; \
	if $(PEER_PYTHON) -c 'import torch' 2>/dev/null; then $(ENV) $(PACKAGES_PYTHON) tests/packages/compare_models.py --python $(PACKAGES_PYTHON) --peer $(PEER_PYTHON) || status=1; fi; \
	exit $$status

FUZZ_SECONDS ?= 60
fuzz: ## Fuzz all readers for FUZZ_SECONDS each (default 60), or with FUZZ_RUNS=N the same N inputs each time
	@$(MAKE) --no-print-directory build PRESET=fuzz
	@tests/fuzz/run build/fuzz/bin $(if $(FUZZ_RUNS),-runs=$(FUZZ_RUNS),-max_total_time=$(FUZZ_SECONDS))

# --- maintenance -----------------------------------------------------------------------------------------------------
lint: configure ## Check format, layers, Python and (changed files only) clang-tidy
	@JOBS=$(JOBS) tools/lint $(BUILD)

tidy: configure ## clang-tidy on every source file
	@JOBS=$(JOBS) tools/lint --tidy-all $(BUILD)

format: setup ## Format all sources
	@tools/lint --fix

docs: package ## Generate docs/reference from the op records
	@test -f tools/gen_docs.py || { echo "make docs: tools/gen_docs.py is not in this checkout; read docs/ as it is." >&2; exit 3; }
	@$(ENV) $(PYTHON) tools/gen_docs.py

clean: ## Remove build trees (keeps .venv)
	@rm -rf build dist

# --- inference -------------------------------------------------------------------------------------------------------
results/checkpoint.safetensors:
	@$(MAKE) --no-print-directory train-cpu TRAIN_ARGS="--epochs 1 $(TRAIN_ARGS)"
export-onnx: package results/checkpoint.safetensors ## Write the demo network, trained, as results/small_cnn.onnx
	@$(ENV) $(PYTHON) bench/engine.py --export results/small_cnn.onnx --checkpoint results/checkpoint.safetensors
trt-benchmark: export-onnx ## Measure engines of the demo network on every device, beside onnxruntime if it is installed (results/engine.csv)
	@$(ENV) $(or $(PEER_PYTHON),$(PYTHON)) bench/engine.py --model results/small_cnn.onnx --csv results/engine.csv

# --- not available yet -----------------------------------------------------------------------------------------------
train-mps: ## Train the demo network on Apple's GPU
	$(call absent,there is no Metal back end; \`make run\` trains on the CPU.)
