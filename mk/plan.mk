# plan.mk: the resources that the kernels use on a GPU: the budget file, and the planner compared with the compiler.
.PHONY: budgets test-budgets

# The planner's occupancy is compared with NVIDIA's calculator if the toolkit is installed.
$(BUILD)/obj/tests/unit/test_plan_tiles.o: CPPFLAGS += $(if $(NVCC),-isystem $(dir $(NVCC))../include)

# The report of ptxas for every kernel, beside its code.
PTXAS_REPORTS = $(patsubst %.fatbin,%.ptxas,$(filter-out %.compute_80.fatbin,$(CUDA_CODES)))
NVCC_VERSION  = $(shell $(NVCC) --version | sed -n 's/.*, V//p')

budgets: cuda
	scripts/kernel_budgets.sh $(NVCC_VERSION) $(PTXAS_REPORTS) >kernels/budgets.txt.new
	mv kernels/budgets.txt.new kernels/budgets.txt

test-budgets: cuda
	@tests/budgets.sh $(if $(NVCC),$(NVCC_VERSION) $(PTXAS_REPORTS))

# The machine code of fwd_sm90, read with the disassembler of the CUDA toolkit, or of the PyPI package if setup.sh
# fetched it.
NVDISASM ?= $(firstword $(wildcard $(dir $(NVCC))nvdisasm) $(shell command -v nvdisasm) $(wildcard $(BUILD)/tools/nvidia/cu*/bin/nvdisasm))
.PHONY: test-hopper
test-hopper: cuda
	@tests/hopper_build.sh $(if $(NVCC),$(CUDA_OUT) '$(NVDISASM)')

# The rates of this machine's GPU, for devices/: make gpu-peaks.
PEAKS_TARGETS := $(foreach cc,80 86 89 90,-gencode arch=compute_$(cc),code=sm_$(cc)) -gencode arch=compute_90,code=compute_90
.PHONY: gpu-peaks
gpu-peaks: $(BUILD)/bench/gpu_peaks
	$<

$(BUILD)/bench/gpu_peaks: bench/gpu_peaks.cu
	@mkdir -p $(@D)
	$(call short,NVCC,$@)$(NVCC) -O3 -std=c++17 $(PEAKS_TARGETS) -o $@ $<

# Pages that quote commands and measurements: `make docs` rewrites them, `make test-docs` checks them.
GENERATED := $(shell grep -lE '^<!-- begin: (attest|evidence_table|attestation_table|self_check_table|faults_table|api_page) ?' README.md docs/*.md docs/*/*.md evidence/*.md)
.PHONY: docs test-docs
$(BUILD)/evidence_table: scripts/evidence_table.c $(BUILD)/liblab.a $(TEST_IMAGES) $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(images_first) -o $@ $^ $(JANSSON) $(LDLIBS)

$(BUILD)/attestation_table: scripts/attestation_table.c $(BUILD)/liblab.a $(TEST_IMAGES) $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(images_first) -o $@ $^ $(JANSSON) $(LDLIBS)

$(BUILD)/self_check_table: scripts/self_check_table.c $(BUILD)/liblab.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(JANSSON) $(LDLIBS)

docs: all $(TEST_PROGRAM) $(BUILD)/evidence_table $(BUILD)/attestation_table $(BUILD)/self_check_table
	scripts/generated.sh $(BUILD) $(GENERATED)

test-docs: all $(TEST_PROGRAM) $(BUILD)/evidence_table $(BUILD)/attestation_table $(BUILD)/self_check_table
	@scripts/generated.sh --check $(BUILD) $(GENERATED)

# The texts that users read: their words, links, lengths and line widths.
.PHONY: test-texts
test-docs: test-texts
test-texts:
	@tests/texts/texts.sh
