# aarch64.mk: `make test-aarch64` builds for aarch64 and tests the CPU engine there: on such a machine itself, elsewhere by the cross
# compiler and qemu-user, in a folder of its own without GPU kernels: none of its tests runs one.
.PHONY: test-aarch64 aarch64-tests aarch64-setup

# Numbers, memory, errors, threads, the oracles that judge, and the Python package. What starts programs or forks with threads is
# left out: qemu-user does not take it. Of every operation test_<name>.c, and its errors and its oracle where they have a file.
AARCH64_UNITS := $(patsubst tests/unit/test_%.c,%,$(wildcard $(foreach end,.c _errors.c _oracle.c,$(OPERATIONS:%=tests/unit/test_%$(end)))))
AARCH64_TESTS := $(addprefix $(BUILD)/tests/unit/test_,alloc backward_blocks backward_packed checked code_digest \
    context dtype error hidden_ends json_load layout mask_patterns masks memory moe_route npy numbers \
    oracle plan_errors pool problem reload run_errors select sha256 spec text threads $(AARCH64_UNITS))
AARCH64_RANDOM := $(addprefix $(BUILD)/tests/property/test_,random moe_random)

aarch64-tests: all $(AARCH64_TESTS) $(AARCH64_RANDOM)
	@BUILD=$(BUILD) RUN='$(RUN)' PYTHON='env PYTHONPATH=$(BUILD)/python$(if $(CROSS),:$(SYSROOT)/usr/lib/python3/dist-packages \
	    PYTHONHOME=$(SYSROOT)/usr) PYTHONDONTWRITEBYTECODE=1 $(RUN) $(AARCH64_PYTHON)' tests/aarch64.sh $(AARCH64_TESTS)

ifeq ($(ARCH),aarch64)
AARCH64_PYTHON = $(if $(CROSS),$(firstword $(wildcard $(SYSROOT)/usr/bin/python3.*)),$(PYTHON_FOR_TESTS))

# gcc 12 fails in its vectoriser on this file.
$(BUILD)/obj/tests/unit/test_oracle.o: ISA_CFLAGS := -fno-tree-vectorize
endif

aarch64-setup:
	@TOOLS=$(TOOLS) scripts/setup.sh aarch64

AARCH64       := aarch64-linux-gnu
AARCH64_LACKS  = $(strip $(foreach program,$(AARCH64)-gcc qemu-aarch64,$(if $(shell command -v $(program)),,$(program))) \
                 $(if $(shell test -e $(TOOLS)/$(AARCH64)/packages.txt && echo yes),,libraries for it))

ifeq ($(ARCH),aarch64)
test-aarch64: aarch64-tests
else
test-aarch64: aarch64-setup
	@$(if $(AARCH64_LACKS),echo 'skipped: aarch64: not here: $(AARCH64_LACKS)',\
	    $(MAKE) -s --no-print-directory $(JOBS) CROSS=$(AARCH64)- CC=$(AARCH64)-gcc AR=$(AARCH64)-ar NVCC= BUILD=$(BUILD)/aarch64-test \
	    CUDA_OUT=$(BUILD)/aarch64-test/cuda TOOLS=$(TOOLS) aarch64-tests)
endif
