# bench.mk: the peaks of the processor, and PyTorch beside us where it is installed.
.PHONY: bench-torch
$(BUILD)/bench/cpu_peaks: bench/cpu_peaks.c $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libattest.a $(LDLIBS)

all: $(BUILD)/bench/cpu_peaks

bench-torch: all
	python3 bench/cpu_vs_torch.py --build $(BUILD) --json $(BUILD)/cpu_vs_torch.json

-include $(BUILD)/bench/cpu_peaks.d
