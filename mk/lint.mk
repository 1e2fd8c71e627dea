# lint.mk: `make fmt` formats the code, `make lint` checks it statically.
CLANG_FORMAT  ?= $(firstword $(shell command -v clang-format-14 clang-format))
CLANG_TIDY    ?= $(firstword $(shell command -v clang-tidy-14 clang-tidy))
FORMATTED      = $(shell find $(wildcard include src lab cli python tests bench examples peers) -name '*.[ch]' -o -name '*.cpp')
LINTED         = $(LIB_SOURCES) $(LAB_SOURCES) $(CLI_SOURCES) $(PYTHON_SOURCES)
SHELL_SCRIPTS  = .ci/run $(wildcard scripts/*.sh tests/*.sh tests/*/*.sh)

.PHONY: fmt lint lint-setup lint-format lint-tidy lint-cppcheck lint-shell test-layers test-other-compiler

fmt:
	$(CLANG_FORMAT) -i $(FORMATTED)

lint: lint-format lint-tidy lint-cppcheck lint-shell test-layers

lint-setup:
	@scripts/setup.sh lint

# The format is that of clang-format 14; other versions format differently.
lint-format: | lint-setup
	@$(CLANG_FORMAT) --version | grep -q 'version 14\.' || \
	    { echo 'lint: clang-format 14 is needed' >&2; exit 3; }
	$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)

# The compile commands of each file, also for editors: taken from what make itself would run.
$(BUILD)/compile_commands.json: Makefile $(LINTED)
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory V=1 WERROR=1 -Bn all | awk -v folder='$(CURDIR)' ' \
	    BEGIN { printf "[" } \
	    / -c [^ ]+\.c -o / { \
	        file = $$0; sub(/.* -c /, "", file); sub(/ .*/, "", file); gsub(/["\\]/, "\\\\&"); \
	        printf "%s\n{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", \
	               separator, folder, file, $$0; \
	        separator = "," \
	    } \
	    END { print "\n]" }' >$@

lint-tidy: $(BUILD)/compile_commands.json | lint-setup
	printf '%s\n' $(LINTED) | xargs -n 1 -P 2 $(CLANG_TIDY) -p $(BUILD) --quiet 2>/dev/null

lint-cppcheck: | lint-setup
	cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem --suppress=invalidPointerCast -Iinclude -Isrc -I. $(LINTED)

lint-shell: | lint-setup
	shellcheck $(SHELL_SCRIPTS)

test-layers:
	tests/layers.sh
	tests/one_place.sh

# Everything must also build with the other compiler (gcc or clang) and compute the right answers.
OTHER_CC := $(if $(findstring clang,$(CC)),gcc,clang)
test-other-compiler:
	@$(MAKE) --no-print-directory -j$(shell nproc) BUILD=$(BUILD)/$(OTHER_CC) CUDA_OUT=$(CUDA_OUT) CC=$(OTHER_CC) all
	$(BUILD)/$(OTHER_CC)/attest verify --suite seed --device cpu
