# cross.mk: `make CROSS=aarch64-linux-gnu-` builds for another processor, in a folder of its own; any other target of make takes
# CROSS as well. The GPU code is the same on every host: it is compiled once, for all builds.
ifneq ($(CROSS),)
TRIPLE   := $(notdir $(CROSS:-=))
ifeq ($(BUILD),build/$(TRIPLE))
CUDA_OUT ?= build/cuda
TOOLS    ?= build/tools
endif
TOOLS    ?= $(BUILD)/tools

# Headers and libraries of that processor that a cross compiler does not bring: setup.sh unpacks Debian's packages. SYSROOT=FOLDER
# names others.
ifeq ($(origin SYSROOT),undefined)
SYSROOT  := $(TOOLS)/$(TRIPLE)
ifneq ($(MAKECMDGOALS),clean)
# Make restarts when it has made this file, and then finds what was just unpacked.
include $(SYSROOT)/ready.mk
endif
endif
$(TOOLS)/$(TRIPLE)/ready.mk: scripts/sysroot.sh scripts/setup.sh
	@CROSS=$(CROSS) TOOLS=$(TOOLS) scripts/setup.sh cross
	@touch $@

SYSROOT_INCLUDE := -isystem $(SYSROOT)/usr/include
CPPFLAGS += $(SYSROOT_INCLUDE)
SYSROOT_LIBS    := $(addprefix $(abspath $(SYSROOT)),$(addprefix /usr/lib/$(TRIPLE),/ /blas /lapack) /lib/$(TRIPLE))
LDLIBS   += $(addprefix -L,$(SYSROOT_LIBS))

# Runs a program of that processor here, where qemu is installed.
empty    :=
space    := $(empty) $(empty)
RUN      ?= qemu-$(ARCH) -L /usr/$(TRIPLE) -E LD_LIBRARY_PATH=$(subst $(space),:,$(SYSROOT_LIBS))
endif
