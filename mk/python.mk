# python.mk: `make python` builds the package in $(BUILD)/python: PYTHONPATH=$(BUILD)/python, and `import attest`.
#
# The extension uses CPython's limited API: the headers of any Python from 3.9 on give one binary for all of them.
# It contains the library and exports none of its names.
PYTHON_INCLUDE ?= $(patsubst %/Python.h,%,$(firstword $(wildcard $(addprefix $(SYSROOT)/usr/include/,python3/Python.h python3.*/Python.h))))
PYTHON_OUT     := $(BUILD)/python/attest
PYTHON_SOURCES := $(wildcard python/core/*.c)
PYTHON_OBJECTS := $(PYTHON_SOURCES:%.c=$(BUILD)/obj/%.o)
PYTHON_TEXTS   := $(patsubst python/attest/%,$(PYTHON_OUT)/%,$(wildcard python/attest/*.py python/attest/*.pyi python/attest/*/*.py python/attest/*/*/*.py) python/attest/py.typed)

.PHONY: python test-python test-frameworks bench-python
ifneq ($(PYTHON_INCLUDE),)
all: python
endif

python: $(PYTHON_OUT)/_core.abi3.so $(PYTHON_TEXTS) $(PYTHON_OUT)/bin/attest

# `python -m attest` runs this program. `make python` alone does not build it: the link is then dangling.
$(PYTHON_OUT)/bin/attest:
	@mkdir -p $(@D)
	@ln -sfn ../../../attest $@

$(PYTHON_OUT)/%: python/attest/%
	@mkdir -p $(@D)
	$(call short,COPY,$@)cp $< $@

$(PYTHON_OBJECTS): CPPFLAGS := -Iinclude -I. -isystem $(PYTHON_INCLUDE) $(SYSROOT_INCLUDE) -D_GNU_SOURCE
-include $(PYTHON_OBJECTS:.o=.d)
$(BUILD)/compile_commands.json: $(PYTHON_SOURCES)

$(PYTHON_OUT)/_core.abi3.so: $(PYTHON_OBJECTS) $(BUILD)/libattest.a
	@test -n '$(PYTHON_INCLUDE)' || { echo "python: Python's headers are needed (python3-dev), or PYTHON_INCLUDE=FOLDER" >&2; exit 3; }
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -shared $(ALL_CFLAGS) -Wl,--exclude-libs,ALL -Wl,-z,relro,-z,now $(LDFLAGS) -o $@ $^ $(LDLIBS)

# An interpreter with NumPy and pytest; the tests of a framework run if it is installed, and are otherwise listed as skipped.
PYTHON_FOR_TESTS = $(firstword $(foreach python,python3 /usr/bin/python3,\
    $(shell $(python) -c 'import numpy, pytest' 2>/dev/null && echo $(python))))

TESTED_BY_PYTHON = python $(BUILD)/attest $(BUILD)/evidence_table $(BUILD)/bench/call_cost $(FAKE_LIBS)
tests_in_python  = BUILD=$(BUILD) ATTEST_LIBCUDA=/nonexistent/libcuda.so.1 PYTHONPATH=$(BUILD)/python PYTHONDONTWRITEBYTECODE=1 \
                   $(1) -m pytest -q -p no:cacheprovider tests/python

test-python: $(TESTED_BY_PYTHON)
	@test -n '$(PYTHON_FOR_TESTS)' || { echo 'test-python: python3-numpy and python3-pytest are needed' >&2; exit 3; }
	$(call tests_in_python,$(PYTHON_FOR_TESTS))

# The same tests in an environment that has PyTorch, transformers and JAX: setup.sh makes it from scripts/frameworks.txt. It must import
# them: a test is skipped where its framework is not there.
FRAMEWORKS_PYTHON = $(TOOLS)/frameworks/bin/python
test-frameworks: $(TESTED_BY_PYTHON)
	@BUILD=$(BUILD) TOOLS=$(TOOLS) scripts/setup.sh frameworks
	@$(FRAMEWORKS_PYTHON) -c 'import jax, torch, transformers'
	$(call tests_in_python,$(FRAMEWORKS_PYTHON))

$(BUILD)/bench/call_cost: bench/call_cost.c $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libattest.a $(LDLIBS)

bench-python: python $(BUILD)/bench/call_cost
	PYTHONPATH=$(BUILD)/python $(PYTHON_FOR_TESTS) -m attest.bench --groups calls --build $(BUILD)
