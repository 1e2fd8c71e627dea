# wheel.mk: `make wheel`, `make sdist` and their parts, in $(DIST).
#
# A wheel contains the Python package, the `attest` program and its data. The extension and the program share one copy
# of the GPU kernels, libattest_kernels, which is stored beside the extension; everything else is linked from the
# objects of the build.
DIST            ?= $(BUILD)/dist
TOOLS           ?= $(BUILD)/tools
PACKAGER        := python3 packaging/libattest_build.py

# Parts linked by $(CC) run on this system and newer ones: `pip install .`. Those of `make wheel` are linked by zig
# against the symbols of an old glibc, from the same objects: the machine code is that of the attested build.
WHEEL_GLIBC     := 2.17
WHEEL_TAG       := manylinux_$(subst .,_,$(WHEEL_GLIBC))_$(ARCH).manylinux2014_$(ARCH)
WHEEL_CC         = $(CC) -pthread $(LDFLAGS)
ZIG              = ZIG_GLOBAL_CACHE_DIR=$(abspath $(TOOLS))/zig-cache ZIG_LOCAL_CACHE_DIR=$(abspath $(TOOLS))/zig-cache \
                   $(TOOLS)/ziglang/zig
KERNELS_SO      := libattest_kernels-$(VERSION).so
# The objects of moe take the longest to compile: they come first, so that no core waits for them at the end.
WHEEL_OBJECTS    = $(filter $(BUILD)/obj/src/moe/%,$(LIB_OBJECTS)) $(filter-out $(EMBEDDED) $(BUILD)/obj/src/moe/%,$(LIB_OBJECTS))
WHEEL_EMBEDDED  := $(BUILD)/obj/wheel_embedded.o
OLD_GLIBC       := $(BUILD)/obj/packaging/old_glibc.o
has_jansson      = $(shell $(CC) $(CPPFLAGS) $(CFLAGS) -include jansson.h -x c -E /dev/null >/dev/null 2>&1 && echo yes)

.PHONY: wheel wheel-setup wheel-parts sdist

$(WHEEL_EMBEDDED): $(CUDA_OUT)/embedded.c src/cuda/embed.h $(call other_cuda_out,$(WHEEL_EMBEDDED))
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fvisibility=default -c $< -o $@
	@$(note_cuda_out)

# $(call wheel_rules,FOLDER,LINKER,MORE OBJECTS): the binaries of a wheel.
define wheel_rules
$(1)/attest/$$(KERNELS_SO): $$(WHEEL_EMBEDDED)
	@mkdir -p $$(@D)
	$$(call short,LD,$$@)$(2) -shared -s -Wl,-soname,$$(@F) -o $$@ $$^

$(1)/attest/_core.abi3.so: $$(WHEEL_OBJECTS) $$(PYTHON_OBJECTS) $(3) $(1)/attest/$$(KERNELS_SO) packaging/python.map
	$$(call short,LD,$$@)$(2) -shared -s -Wl,--version-script=packaging/python.map -Wl,-z,relro,-z,now -Wl,-rpath,'$$$$ORIGIN' \
	    -o $$@ $$(filter-out %.map,$$^) $$(LDLIBS)

$(1)/attest/bin/attest: $$(CLI_OBJECTS) $$(BUILD)/liblab.a $$(WHEEL_OBJECTS) $(3) $(1)/attest/$$(KERNELS_SO)
	@mkdir -p $$(@D)
	$$(call short,LD,$$@)$(2) -pie -s -Wl,-z,relro,-z,now -Wl,-rpath,'$$$$ORIGIN/..' -o $$@ $$^ $$(JANSSON) $$(LDLIBS)
endef

$(eval $(call wheel_rules,$(BUILD)/wheel/local,$$(WHEEL_CC),))
$(eval $(call wheel_rules,$(BUILD)/wheel/manylinux,$$(ZIG) cc -target $(ARCH)-linux-gnu.$(WHEEL_GLIBC),$(OLD_GLIBC)))

# `pip install .` calls this. Without jansson's header the program is omitted.
wheel-parts: $(BUILD)/wheel/local/attest/_core.abi3.so $(if $(has_jansson),$(BUILD)/wheel/local/attest/bin/attest)

wheel-setup:
	@BUILD=$(BUILD) TOOLS=$(TOOLS) scripts/setup.sh wheel

$(BUILD)/wheel/manylinux/attest/$(KERNELS_SO): | wheel-setup

wheel: $(BUILD)/wheel/manylinux/attest/_core.abi3.so $(BUILD)/wheel/manylinux/attest/bin/attest
	@$(PACKAGER) wheel $(BUILD)/wheel/manylinux $(WHEEL_TAG) $(DIST)
	@scripts/audit_wheel.sh $(TOOLS) $(DIST)/libattest-$(VERSION)-cp39-abi3-$(WHEEL_TAG).whl

sdist:
	@$(PACKAGER) sdist $(DIST)

# The number of GPU kernel images that are still to be compiled: `pip install .` says how long that takes.
.PHONY: gpu-images
gpu-images:
	@echo $(words $(filter-out $(wildcard $(CUDA_OUT)/*.fatbin),$(CUDA_CODES)))

.PHONY: test-packages
test-packages: all
	@BUILD=$(BUILD) VERSION=$(VERSION) IMAGE_COUNT=$(words $(CUDA_CODES)) TOOLS=$(TOOLS) tests/packages/wheel.sh
	@BUILD=$(BUILD) VERSION=$(VERSION) SOVERSION=$(SOVERSION) CC='$(CC)' tests/packages/deb.sh
	@VERSION=$(VERSION) tests/packages/signed_release.sh
