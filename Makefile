# SwapAdvisor. `make setup` once on a fresh machine, then `make`, `make demo`, `make test`, `make bench`.
# Every room adds its own targets in <room>/build.mk; this file holds what they share.

BUILD ?= build
PREFIX ?= /usr/local
SAN ?=
# SAN=address|undefined|thread builds everything into its own tree with that sanitizer.
ifneq ($(SAN),)
BUILD := $(BUILD)/san-$(SAN)
SANFLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# What the machine lacks is installed before anything is built (in parallel, as many jobs as cores).
ifeq ($(filter setup clean format tidy uninstall,$(MAKECMDGOALS)),)
ifneq ($(shell scripts/setup.sh --check >&2 || scripts/setup.sh >&2; echo $$?),0)
$(error setup failed: see the lines above, mend it and run make again)
endif
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif

CUDA_HOME ?= $(firstword $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v nvcc 2>/dev/null))) \
	$(patsubst %/bin/nvcc,%,$(wildcard /usr/local/cuda/bin/nvcc)))
NVCC := $(CUDA_HOME)/bin/nvcc
ifeq ($(filter setup clean format tidy uninstall,$(MAKECMDGOALS)),)
ifeq ($(wildcard $(NVCC)),)
$(error CUDA toolkit not found: set CUDA_HOME or put nvcc on PATH (CUDA Toolkit 13 is needed to build))
endif
endif
CCACHE := $(shell command -v ccache 2>/dev/null)
# Objects do not depend on the folder of the checkout: a second clone compiles from the cache.
export CCACHE_NOHASHDIR := 1
CXX := $(CCACHE) g++
CC := $(CCACHE) gcc

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
# -ffp-contract=off: the software GPU and the planner must round the same on every machine.
CXXFLAGS := -std=c++20 -O2 -g1 -fPIC -fvisibility=hidden -ffp-contract=off $(WARN) $(SANFLAGS) -I. -isystem $(CUDA_HOME)/include
LDFLAGS := $(SANFLAGS)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# Filled in by the rooms.
ALL :=
TEST_SUITES :=
TEST_DEPS :=
BENCHES :=

obj = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(EXTRA_CXXFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) -O2 -g1 -fPIC -fvisibility=hidden $(SANFLAGS) -I. -isystem $(CUDA_HOME)/include -MMD -MP -c $< -o $@
$(BUILD)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(CC) -fPIC -c $< -o $@

# One Catch2 runner shared by all unit test programs (compiling catch's main takes long).
CATCH_MAIN := $(BUILD)/obj/tests/unit/main.o

include planner/build.mk recorder/build.mk replayer/build.mk interpose/build.mk
include tests/softgpu/build.mk tests/workloads/build.mk tests/frameworks/pytorch/build.mk tests/build.mk
ifneq ($(filter address thread,$(SAN)),)
# Their runtimes must be the first thing in a process and hook what the shim hooks: what preloads cannot run. The units
# link the runtime, and these system tests run programs of ours alone.
TEST_SUITES := $(filter $(BUILD)/%,$(TEST_SUITES)) tests/system/planner_cli_test.py tests/system/graph_player_test.py
endif

UNIT_SUITES = $(filter $(BUILD)/%,$(TEST_SUITES))

.PHONY: all setup demo test test-fast check bench install uninstall format tidy clean
all: $(ALL)

setup:
	scripts/setup.sh

demo: all
	scripts/demo.py --build $(BUILD)

test: export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp
test: all $(TEST_DEPS) $(UNIT_SUITES)
	tests/run_suites.py --build $(BUILD) $(TEST_SUITES)

# The units alone; `test` runs the system tests too. One suite: build/tests/NAME 'test case', or
# tests/system/NAME_test.py --build build 'test'.
test-fast: all $(TEST_DEPS) $(UNIT_SUITES)
	tests/run_suites.py --build $(BUILD) $(UNIT_SUITES)

check: all $(TEST_DEPS) $(UNIT_SUITES)
	scripts/check.sh $(BUILD) $(UNIT_SUITES)

# For clangd and other tools: how each source is compiled, as this Makefile says it.
compile_commands.json: Makefile $(wildcard *.mk */build.mk tests/*/build.mk)
	$(MAKE) -s -B -n all $(UNIT_SUITES) CCACHE= | scripts/compile_commands.py > $@

bench: all $(BENCHES)
	scripts/bench.py --build $(BUILD)

install: all
	scripts/install.sh $(BUILD) "$(PREFIX)"

uninstall:
	scripts/install.sh --remove $(BUILD) "$(PREFIX)"

FORMAT_FILES = $(shell git ls-files '*.cpp' '*.h' '*.cu' '*.c')
format:
	clang-format -i $(FORMAT_FILES)
tidy:
	scripts/tidy.sh

clean:
	rm -rf $(BUILD)

-include $(shell test -d $(BUILD)/obj && find $(BUILD)/obj -name '*.d')
