# The front door; Meson and Ninja do the work. `make help` lists the targets.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
ROUNDS ?= 5
FUZZ_SECONDS ?= 60

.PHONY: all help demo demo-torch demo-tf test bench fuzz soak lint install \
    wheel clean

all: $(BUILD)/build.ninja # build everything into build/ (the default)
	@ninja -C $(BUILD) -j $(JOBS) --quiet
	@echo "built: $(BUILD)/bin/psd_run, $(BUILD)/bin/psd; try: make demo"

# Optimised, with symbols. The prefix is / because `make install` gives the
# real one, and the tree works wherever it lies.
$(BUILD)/build.ninja:
	@tools/setup.sh build
	@mkdir -p $(BUILD)
	@meson setup $(BUILD) --prefix=/ --buildtype=release -Ddebug=true \
	    -Doptimization=3 >$(BUILD)/setup.log 2>&1 || \
	    { cat $(BUILD)/setup.log; exit 1; }

help: # this list
	@sed -n 's/^\([a-z-]*\):[^#]*# /  make \1|/p' Makefile | \
	    awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: all # train digits alone and with 4 workers, and compare
	@examples/demo.sh $(BUILD)

demo-torch: all # the same with PyTorch: a script without a changed line
	@examples/torch/demo.sh $(BUILD)

demo-tf: all # the same with TensorFlow
	@examples/demo_tf.sh $(BUILD)

test: # all tests, on gcc and clang, with sanitizers (24 minutes)
	@tools/setup.sh test
	@python3 tests/run

bench: all # measure beside OpenMPI, Gloo, DDP, TensorFlow; writes bench/*.md
	@tools/setup.sh bench
	@BUILD=$(BUILD) bench/run.sh --rounds $(ROUNDS)

fuzz: # every fuzz target for FUZZ_SECONDS (60) each
	@tools/setup.sh test
	@python3 tests/run --fuzz $(FUZZ_SECONDS)

soak: # 10,000 seeds of the simulator, the real faults 20 times
	@tools/setup.sh test
	@python3 tests/run --soak

lint: all # clang-tidy over the sources, a few minutes
	@tools/setup.sh lint
	@clang-tidy --quiet -p $(BUILD) \
	    $(filter-out %_test.c,$(wildcard src/*/*.c bin/*.c))

install: all # install to PREFIX, a tree that works wherever it is moved
	@DESTDIR=$(abspath $(PREFIX)) meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed to $(abspath $(PREFIX))"

wheel: all # pack a wheel for pip into BUILD, with all that psd_run needs
	@python3 tools/wheel.py $(BUILD)

clean: # remove everything that was built
	@rm -rf $(BUILD) build-test-*
