# evidence.mk: digests of the sources that are not in the library, and the check of the attestations. The CPU engine of
# an operation for an instruction set: the file for that set, and the files that all sets share.
isa_files     = $(wildcard src/$(1)/cpu/*_$(2).c)
shared_files  = $(filter-out $(foreach isa,$(ISAS),$(call isa_files,$(1),$(isa))),$(wildcard src/$(1)/cpu/*.c)) src/cpu/pool.c
DIGESTS      := $(BUILD)/obj/source_digests.o

# The laboratory in two parts. A change of the first makes every statement stale; a change of the second makes their
# times stale, unless evidence/harnesses.txt says that they are still valid. Code that only displays, tunes or observes
# is in neither part.
#   judge   decides right or wrong: the oracle, the plain reference, the tensors and their random numbers, the
#           problems, the protocol and the bar, what is run and how certify records it
#   clock   decides times: timers, sampling, statistics, floors
ORACLE_FILES := $(sort $(wildcard src/*/ref/*.[ch]) src/base/dtype.c src/base/dtype.h)
JUDGE_FILES  := $(ORACLE_FILES) $(sort $(wildcard lab/verify/*.[ch] lab/tensors/*.[ch] lab/problem/*.[ch] $(OPERATIONS:%=lab/%/*.[ch])) \
                $(wildcard lab/subject/subject.[ch] lab/subject/peer*.[ch] lab/base/random.[ch] lab/base/workers.[ch]) \
                $(wildcard lab/evidence/certify.[ch] lab/evidence/chosen.[ch] lab/evidence/predicate.[ch]))
CLOCK_FILES  := $(sort $(wildcard lab/measure/*.[ch] lab/statistics/*.[ch] lab/plan/plan_floor.[ch] lab/plan/plan_live.c) \
                $(wildcard lab/subject/device_timer.[ch] lab/base/clock.[ch]))

# The code that chooses, divides and launches: all of src/ except the oracles and the CPU engines, which have their own
# digests; also the list of rows, and what host and kernels share. Its statement is evidence/DEVICE/host.json, about the
# tests in tests/gpu.
HOST_FILES   := $(shell find src include kernels -name '*.[ch]' -not -path '*/cpu/*' -not -path '*/ref/*' -o -name kernels.def | LC_ALL=C sort)
GPU_TEST_FILES := $(shell find tests/gpu -type f | LC_ALL=C sort)

$(BUILD)/source_digests: scripts/source_digests.c lab/evidence/closure.c lab/evidence/code_text.c lab/base/message.c lab/base/clean_text.c lab/base/characters.c src/base/sha256.c
	@mkdir -p $(@D)
	$(call short,LD,$@)$(HOSTCC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^

$(BUILD)/source_digests.c: $(BUILD)/source_digests mk/evidence.mk $(wildcard src/cpu/* src/*/cpu/* include/*) $(JUDGE_FILES) $(CLOCK_FILES) $(HOST_FILES) $(GPU_TEST_FILES) $(CUDA_OUT)/embedded.list $(call other_cuda_out,$(BUILD)/source_digests.c)
	@$< $(CUDA_OUT)/nvcc.flags '$(OPT) $(CFLAGS)' \
	    $(foreach operation,$(OPERATIONS),$(foreach isa,$(ISAS),$(if $(call isa_files,$(operation),$(isa)),$(operation)_$(isa) '$(ISA_$(isa))' $(call isa_files,$(operation),$(isa)) $(call shared_files,$(operation)) --))) \
	    judge --texts $(JUDGE_FILES) -- clock --texts $(CLOCK_FILES) -- \
	    host --texts $(HOST_FILES) -- gpu_tests --bytes $(GPU_TEST_FILES) >$@.new
	@mv $@.new $@
	@$(note_cuda_out)

$(DIGESTS): $(BUILD)/source_digests.c lab/evidence/code_digest.h
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/liblab.a: $(DIGESTS)

# The evidence that evidence/required.txt asks for must exist and match this code. The code of the variants does not
# ship.
.PHONY: test-evidence
test-evidence: $(BUILD)/attest
	@$(BUILD)/attest certify --check --evidence evidence

$(addprefix $(BUILD)/obj/tests/unit/,test_attested.o test_certify.o test_chosen.o test_host_tests.o test_statements.o): CPPFLAGS += -DSUITES='"$(abspath suites)"'
