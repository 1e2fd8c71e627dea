# install.mk: `make install DESTDIR= PREFIX=/usr/local` and `make uninstall`.
PREFIX      ?= /usr/local
BINDIR      ?= $(PREFIX)/bin
LIBDIR      ?= $(PREFIX)/lib
INCLUDEDIR  ?= $(PREFIX)/include
MANDIR      ?= $(PREFIX)/share/man
DATADIR     ?= $(PREFIX)/share/attest
BASHDIR     ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR      ?= $(PREFIX)/share/zsh/site-functions
FISHDIR     ?= $(PREFIX)/share/fish/vendor_completions.d

PKGCONFIGDIR := $(LIBDIR)/pkgconfig
CMAKEDIR     := $(LIBDIR)/cmake/attest
SUITES       := $(wildcard suites/*.txt)
DEVICES      := $(wildcard devices/*.json)
STATEMENTS   := evidence/required.txt $(wildcard evidence/harnesses.txt evidence/*/attestations/* evidence/*/host.json)

# $(call fill,TEMPLATE,DESTINATION): substitute the values of this installation in a packaging template.
define fill
$(call short,INST,$(DESTDIR)$(2)/$(1))sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
    -e 's|@VERSION@|$(VERSION)|g' -e 's|@SOVERSION@|$(SOVERSION)|g' \
    -e "s|@INCLUDEDIR_FROM_CONFIG@|$$(realpath -m --relative-to=$(CMAKEDIR) $(INCLUDEDIR))|g" \
    packaging/$(1).in >'$(DESTDIR)$(2)/$(1)' && \
    chmod 644 '$(DESTDIR)$(2)/$(1)'
endef

STRIP        ?= $(CROSS)strip

.PHONY: install install-strip uninstall test-install

# The program searches its suites and devices beside itself, so that a copied build folder is complete.
all: $(SUITES:%=$(BUILD)/%) $(DEVICES:%=$(BUILD)/%)

$(BUILD)/suites/%.txt: suites/%.txt
	@mkdir -p $(@D)
	$(call short,COPY,$@)cp $< $@

$(BUILD)/devices/%.json: devices/%.json
	@mkdir -p $(@D)
	$(call short,COPY,$@)cp $< $@

install: all
	$(quiet)install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR) $(INCLUDEDIR) $(MANDIR)/man1 \
	    $(PKGCONFIGDIR) $(CMAKEDIR) $(DATADIR)/suites $(DATADIR)/devices $(BASHDIR) $(ZSHDIR) $(FISHDIR))
	$(call short,INST,$(DESTDIR)$(BINDIR)/attest)install -m 755 $(BUILD)/attest $(DESTDIR)$(BINDIR)
	$(call short,INST,$(DESTDIR)$(INCLUDEDIR)/attest.h)install -m 644 include/attest.h include/attest_peer.h $(DESTDIR)$(INCLUDEDIR)
	$(call short,INST,$(DESTDIR)$(LIBDIR)/libattest.so)install -m 644 $(BUILD)/libattest.a $(BUILD)/libattest.so.$(VERSION) $(DESTDIR)$(LIBDIR)
	$(quiet)ln -sf libattest.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libattest.so.$(SOVERSION)
	$(quiet)ln -sf libattest.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libattest.so
	$(call short,INST,$(DESTDIR)$(MANDIR)/man1/attest.1)install -m 644 man/attest.1 $(DESTDIR)$(MANDIR)/man1
	$(call short,INST,$(DESTDIR)$(BASHDIR)/attest)$(RUN) $(BUILD)/attest completions bash >$(DESTDIR)$(BASHDIR)/attest
	$(call short,INST,$(DESTDIR)$(ZSHDIR)/_attest)$(RUN) $(BUILD)/attest completions zsh >$(DESTDIR)$(ZSHDIR)/_attest
	$(call short,INST,$(DESTDIR)$(FISHDIR)/attest.fish)$(RUN) $(BUILD)/attest completions fish >$(DESTDIR)$(FISHDIR)/attest.fish
	$(call short,INST,$(DESTDIR)$(DATADIR))install -m 644 $(SUITES) $(DESTDIR)$(DATADIR)/suites
	$(quiet)install -m 644 $(DEVICES) $(DESTDIR)$(DATADIR)/devices
	$(quiet)for file in $(STATEMENTS); do install -D -m 644 $$file $(DESTDIR)$(DATADIR)/$$file || exit 1; done
	$(call fill,attest.pc,$(PKGCONFIGDIR))
	$(call fill,attestConfig.cmake,$(CMAKEDIR))
	$(call fill,attestConfigVersion.cmake,$(CMAKEDIR))

# Without debug information, for packages.
install-strip: install
	$(call short,STRIP,$(DESTDIR)$(BINDIR)/attest)$(STRIP) $(DESTDIR)$(BINDIR)/attest
	$(call short,STRIP,$(DESTDIR)$(LIBDIR)/libattest.so)$(STRIP) --strip-unneeded $(DESTDIR)$(LIBDIR)/libattest.so.$(VERSION)
	$(call short,STRIP,$(DESTDIR)$(LIBDIR)/libattest.a)$(STRIP) --strip-debug --enable-deterministic-archives $(DESTDIR)$(LIBDIR)/libattest.a

uninstall:
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/attest $(INCLUDEDIR)/attest.h $(INCLUDEDIR)/attest_peer.h $(LIBDIR)/libattest.a \
	    $(LIBDIR)/libattest.so $(LIBDIR)/libattest.so.$(SOVERSION) $(LIBDIR)/libattest.so.$(VERSION) \
	    $(MANDIR)/man1/attest.1 $(PKGCONFIGDIR)/attest.pc $(BASHDIR)/attest $(ZSHDIR)/_attest $(FISHDIR)/attest.fish \
	    $(CMAKEDIR)/attestConfig.cmake $(CMAKEDIR)/attestConfigVersion.cmake)
	rm -rf $(DESTDIR)$(DATADIR)
	-rmdir $(DESTDIR)$(CMAKEDIR)

# The view of a packager and of a caller: tests/install.sh lists the checks.
test-install: all
	BUILD=$(BUILD) VERSION=$(VERSION) SOVERSION=$(SOVERSION) tests/install.sh
