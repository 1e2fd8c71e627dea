# numpy.mk: `make test-numpy` checks the oracle against NumPy in float64.
PYTHON_WITH_NUMPY = $(firstword $(foreach python,python3 /usr/bin/python3,\
    $(shell $(python) -c 'import numpy' 2>/dev/null && echo $(python))))

.PHONY: test-numpy
test-numpy: $(BUILD)/tests/numpy/dump_oracle
	@test -n "$(PYTHON_WITH_NUMPY)" || { echo 'test-numpy: python3-numpy is needed' >&2; exit 3; }
	$(PYTHON_WITH_NUMPY) tests/numpy/compare.py $< 400
