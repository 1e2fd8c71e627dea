# bench.mk: the peaks of an x86-64 processor, and a comparison with PyTorch if it is installed.
.PHONY: bench-torch
$(BUILD)/bench/cpu_peaks: bench/cpu_peaks.c $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libattest.a $(LDLIBS)

ifeq ($(ARCH),x86_64)
all: $(BUILD)/bench/cpu_peaks
endif

# Any Python that has PyTorch; uses a GPU if PyTorch finds one.
bench-torch: all python
	PYTHONPATH=$(BUILD)/python python3 -m attest.bench --build $(BUILD) --json $(BUILD)/bench_torch.json --plot $(BUILD)/bench_torch.svg

-include $(BUILD)/bench/cpu_peaks.d
