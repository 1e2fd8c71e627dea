# deb.mk: `make deb` builds Debian packages of the installed files, in $(DIST).
.PHONY: deb
deb: all
	@scripts/setup.sh deb
	@BUILD=$(BUILD) MAKE=$(MAKE) CC='$(CC)' scripts/make_debs.sh $(VERSION) $(SOVERSION) $(DIST)
