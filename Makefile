# Builds goprof, its archive and its tests. `make help` lists targets and variables.
#
# Every source below lib/, cmd/ and test/{unit,fake}/ is found by its place: a new file needs no
# line here. Everything that is built lies below $(O); builds with SAN= have a folder of their own
# in it, so that both kinds live side by side.

VERSION = 0.1.0

#@ O=DIR           where to build (default: build)
O ?= build
#@ V=1             show the commands
V ?=
#@ SAN=LIST        sanitizers, e.g. address,undefined; builds in $(O)/san
SAN ?=
#@ FUZZ_SECONDS=N  how long each fuzzer of fuzz runs (default: 60)
FUZZ_SECONDS ?= 60
#@ TEST=NAME       the one unit test that check-unit runs
TEST ?=
#@ ROW=NAMES       what bench measures, e.g. 10k-echo or '1k-*,threads' (default: all, 6 minutes each at most)
ROW ?=
#@ CC=CMD          the compiler: gcc (default) or clang
ifeq ($(origin CC),default)
CC = gcc
endif
#@ CFLAGS=FLAGS    optimisation and debugging (default: -O2 -g)
CFLAGS ?= -O2 -g
#@ WERROR=         empty: warnings do not end the build
WERROR ?= -Werror
#@ PREFIX, DESTDIR where to install (default: /usr/local)
PREFIX ?= /usr/local
DESTDIR ?=
PKG_CONFIG ?= pkg-config

Q := $(if $(V),,@)
say = @$(if $(V),:,printf '  %-7s %s\n' $(1) $(2))
B := $(O)$(if $(SAN),/san)

# ---- what is there ---------------------------------------------------------------------------

lib_src   := $(wildcard lib/*/*.c)
cmd_src   := $(wildcard cmd/*.c)
fake_src  := $(wildcard test/fake/*.c)
unit_src  := $(wildcard test/unit/*.c)
proto_src := $(wildcard lib/export/*.proto)

gen_hdr   := $(proto_src:lib/export/%.proto=$(B)/gen/%.pb-c.h)
gen_obj   := $(gen_hdr:.h=.o)
lib_obj   := $(lib_src:%.c=$(B)/%.o) $(gen_obj)
main_obj  := $(B)/cmd/main.o
cmd_obj   := $(filter-out $(main_obj),$(cmd_src:%.c=$(B)/%.o))
fake_obj  := $(fake_src:%.c=$(B)/%.o)
unit_bin  := $(unit_src:%.c=$(B)/%)

libgoprof := $(B)/libgoprof.a
libcmd    := $(B)/libcmd.a
libfake   := $(B)/libfake.a
program   := $(if $(wildcard cmd/main.c),$(B)/goprof)

# ---- what it needs: pkg-config name or header, and the Debian package ------------------------

packages := libunwind-generic:libunwind-dev libdw:libdw-dev libcjson:libcjson-dev libcurl:libcurl4-openssl-dev zlib:zlib1g-dev libprotobuf-c:libprotobuf-c-dev libxxhash:libxxhash-dev
test_packages := cmocka:libcmocka-dev

goals := $(or $(MAKECMDGOALS),all)
building := $(filter-out clean help check-layers,$(goals))
testing := $(filter check check-unit $(B)/test/%,$(goals))

pkg_name = $(foreach p,$(1),$(firstword $(subst :, ,$(p))))
pkg_missing = $(foreach p,$(1),$(shell $(PKG_CONFIG) --exists $(call pkg_name,$(p)) 2>/dev/null || \
	echo $(lastword $(subst :, ,$(p)))))

ifneq ($(building),)
ifeq ($(shell command -v $(firstword $(CC))),)
$(error $(firstword $(CC)) is missing. Install it: apt-get install $(firstword $(CC)) libc6-dev)
endif
ifeq ($(shell command -v $(PKG_CONFIG)),)
$(error pkg-config is missing. Install it: apt-get install pkg-config)
endif
missing := $(call pkg_missing,$(packages) $(if $(testing),$(test_packages)))
missing += $(shell printf '\#include <Zydis/Zydis.h>\n' | $(CC) -E - >/dev/null 2>&1 || echo libzydis-dev)
missing += $(shell command -v protoc-c >/dev/null || echo protobuf-c-compiler)
ifneq ($(strip $(missing)),)
$(error Packages are missing. Install them: apt-get install $(strip $(sort $(missing))))
endif
pkg_cflags := $(shell $(PKG_CONFIG) --cflags $(call pkg_name,$(packages)))
pkg_libs := $(shell $(PKG_CONFIG) --libs $(call pkg_name,$(packages))) -lZydis -lpthread -lm
test_libs := $(if $(testing),$(shell $(PKG_CONFIG) --libs $(call pkg_name,$(test_packages))))
endif

# ---- flags -----------------------------------------------------------------------------------

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
	-Wvla -Wpointer-arith $(WERROR)
san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
base_flags := -std=gnu11 -D_GNU_SOURCE $(CFLAGS) $(san_flags)
includes := -Ilib -I. $(if $(proto_src),-isystem $(B)/gen) $(pkg_cflags)
compile = $(CC) $(base_flags) $(warnings) $(CPPFLAGS) $(extra) $(includes) -MD -MP -c -o $@ $<

$(B)/cmd/%.o $(B)/lib/sentry/%.o: private extra = -DGOPROF_VERSION='"$(VERSION)"'
$(B)/test/%.o: private extra = -Itest

# ---- targets ---------------------------------------------------------------------------------

.PHONY: all check check-layers check-unit bench soak fuzz install clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

#> all          the archive and, once it has sources, the program (default)
all: $(libgoprof) $(program)

#> check        check-layers, then check-unit
check: check-layers check-unit

#> check-layers house rules of the source tree
check-layers:
	$(Q)scripts/check-layers

#> check-unit   all unit tests, or the one that TEST names
unit_run := $(if $(TEST),$(B)/test/unit/$(TEST),$(unit_bin))
check-unit: $(unit_run)
	$(Q)V=$(V) scripts/check-unit $^

#> bench        the measurements: test/bench/RESULTS.md, or the rows of it that ROW names
bench: all
	$(Q)O=$(B) ROW='$(ROW)' test/bench/run

#> soak         storms of goroutines, ten million stacks read (SOAK_READS=N: so many)
soak: all
	$(Q)O=$(B) scripts/soak

#> fuzz         each fuzzer for FUZZ_SECONDS (needs clang and libclang-rt-dev)
fuzz_bin := $(patsubst test/fuzz/%.c,$(O)/fuzz/%,$(wildcard test/fuzz/*.c))
fuzz_lib := $(filter lib/base/% lib/target/% lib/image/% lib/insn/% lib/go/%,$(lib_src)) \
	$(filter test/fake/go_image_fake.c test/fake/target_fake.c,$(fake_src))
fuzz: $(fuzz_bin)
	$(Q)cd $(O)/fuzz && for f in $(notdir $^); do mkdir -p $$f.corpus && \
		./$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 $$f.corpus || exit 1; done

$(O)/fuzz/%: test/fuzz/%.c $(fuzz_lib)
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)clang -std=gnu11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer,address,undefined $(includes) -Itest -o $@ $^ $(pkg_libs)

#> install      program and manual page below $(DESTDIR)$(PREFIX)
install: all
	$(Q)install -D -m 755 $(B)/goprof $(DESTDIR)$(PREFIX)/bin/goprof
	$(Q)if [ -f cmd/goprof.1 ]; then install -D -m 644 cmd/goprof.1 $(DESTDIR)$(PREFIX)/share/man/man1/goprof.1; fi

#> clean        removes what these rules built below $(O)
built := lib cmd test fuzz gen libgoprof.a libcmd.a libfake.a goprof flags
clean:
	$(Q)rm -rf $(built:%=$(O)/%) $(O)/*.list $(O)/san
	$(Q)rmdir $(O) 2>/dev/null || true

#> help         this list
help:
	@echo 'Targets:'; sed -n 's/^#> /  /p' Makefile
	@echo 'Variables:'; sed -n 's/^#@ /  /p' Makefile

# ---- rules -----------------------------------------------------------------------------------

# Other flags or another compiler: everything is built anew. Other members: the archive is.
same = mkdir -p $(@D); echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' >$@

$(B)/flags: FORCE
	@$(call same,$(CC) $(VERSION) $(base_flags) $(warnings) $(CPPFLAGS) $(includes))
$(B)/libgoprof.list: FORCE
	@$(call same,$(lib_obj))
$(B)/libcmd.list: FORCE
	@$(call same,$(cmd_obj))
$(B)/libfake.list: FORCE
	@$(call same,$(fake_obj))

# Generated headers must exist before the first compilation asks for them; -MD knows the rest (not
# -MMD, which leaves out what comes by -isystem, and that is where they are).
$(B)/%.o: %.c $(B)/flags | $(gen_hdr)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(compile)

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h &: lib/export/%.proto
	@mkdir -p $(B)/gen
	$(call say,PROTOC,$<)
	$(Q)protoc-c --proto_path=lib/export --c_out=$(B)/gen $<

# Written by protoc-c: its warnings are not ours.
$(B)/gen/%.o: $(B)/gen/%.c $(B)/flags
	$(call say,CC,$(<F))
	$(Q)$(CC) $(base_flags) -w $(CPPFLAGS) $(includes) -MD -MP -c -o $@ $<

# Anew each time and by q, not r: files of two folders may share a name.
$(libgoprof): $(lib_obj)
$(libcmd): $(cmd_obj)
$(libfake): $(fake_obj)
$(libgoprof) $(libcmd) $(libfake): %.a: %.list
	@mkdir -p $(@D); rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) qcs $@ $(filter %.o,$^)

link = $(CC) $(base_flags) $(LDFLAGS) -o $@ $(filter %.o %.a,$^)

$(B)/goprof: $(main_obj) $(libcmd) $(libgoprof)
	$(call say,LINK,$@)
	$(Q)$(link) $(pkg_libs)

$(B)/test/unit/%: $(B)/test/unit/%.o $(libcmd) $(libfake) $(libgoprof)
	$(call say,LINK,$@)
	$(Q)$(link) $(test_libs) $(pkg_libs)

# The maker of test/cores notes what lib/image reads of a file: it stands between the two.
maker_obj := $(patsubst %.c,$(B)/%.o,$(wildcard test/cores/*.c))
wraps := block_cache_read image_scan image_find_pointers go_func_by_name
$(B)/test/cores/maker: $(maker_obj) $(libcmd) $(libgoprof)
	$(call say,LINK,$@)
	$(Q)$(link) $(wraps:%=-Wl,--wrap=%) $(pkg_libs)

-include $(maker_obj:.o=.d) $(patsubst %.o,%.d,$(lib_obj) $(main_obj) $(cmd_obj) $(fake_obj) $(unit_bin:%=%.o))
