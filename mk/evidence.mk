# evidence.mk: digests of the sources that the library does not hold, and the check of the attestations.
DIGESTED_CPU := src/attention/cpu/forward.c src/cpu/pool.c src/attention/cpu/redo.c
DIGESTS      := $(BUILD)/obj/source_digests.o

$(BUILD)/source_digests: scripts/source_digests.c lab/evidence/closure.c lab/evidence/code_text.c lab/base/message.c lab/base/clean_text.c lab/base/characters.c src/base/sha256.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^

$(BUILD)/source_digests.c: $(BUILD)/source_digests $(wildcard src/cpu/* src/attention/*/* lab/*/* include/*) $(CUDA_OUT)/embedded.list
	@$< $(CUDA_OUT)/nvcc.flags '$(OPT) $(CFLAGS)' \
	    $(foreach isa,portable avx2 avx512 amx,$(isa) '$(ISA_$(isa))' src/attention/cpu/isa_$(isa).c $(DIGESTED_CPU) --) \
	    harness '' $(sort $(wildcard lab/*/*.c src/attention/ref/*.c)) >$@.new
	@mv $@.new $@

$(DIGESTS): $(BUILD)/source_digests.c lab/evidence/code_digest.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/liblab.a: $(DIGESTS)

# What evidence/required.txt asks for must be there and be of this code. The variants' code is not what ships.
.PHONY: test-evidence
test-evidence: $(BUILD)/attest
	@$(BUILD)/attest certify --check --evidence evidence

$(BUILD)/obj/tests/unit/test_certify.o: CPPFLAGS += -DSUITES='"$(abspath suites)"'
