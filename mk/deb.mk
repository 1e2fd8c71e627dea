# deb.mk: `make deb` puts what is installed into Debian packages, in $(DIST).
.PHONY: deb
deb: all
	@scripts/setup.sh deb
	@BUILD=$(BUILD) MAKE=$(MAKE) CC='$(CC)' scripts/make_debs.sh $(VERSION) $(SOVERSION) $(DIST)
