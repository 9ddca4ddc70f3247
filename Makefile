# Tarn: a small front for Meson. `make demo` and `make check` are all a newcomer needs.
#
#   make                    build/tarn and build/tarnd
#   make demo               import a real pool, mount it, export a volume
#   make check              everything that must hold: lints and tests, some minutes
#   make check-long         the same with long random runs and long fuzzing
#   make bench              the figures of bench/, as ratios within one run
#   make install            to PREFIX (/usr/local), under DESTDIR when given
#   make format, make lint  clang-format in place; the small checks and clang-tidy
#
# CC=clang and SANITIZE=address,undefined (or thread) build in folders of their own: build-clang, build-address-undefined.
comma := ,
variant := $(if $(filter-out cc gcc,$(notdir $(CC))),-$(notdir $(CC)))$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
BUILD ?= build$(variant)
PREFIX ?= /usr/local

options := --prefix=$(PREFIX)
ifdef SANITIZE
options += -Db_sanitize=$(SANITIZE) -Db_lundef=false
endif

export BUILD

.PHONY: all deps demo check check-long bench install format lint clean
all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	CC='$(CC)' meson setup $(options) $(BUILD)

deps:
	dev/install-deps.sh

# A fresh machine may have no meson yet: the dependencies come first, then the build.
demo: deps
	$(MAKE) all
	dev/demo.sh

check: deps
	$(MAKE) all
	dev/test.sh

check-long: deps
	$(MAKE) all
	TARN_TEST_LONG=1 dev/test.sh

bench: deps
	$(MAKE) all
	bench/run.sh

# The folder may have been set up for another prefix, or before one was given.
install: $(BUILD)/build.ninja
	grep -q '"name": "prefix", "value": "$(PREFIX)"' $(BUILD)/meson-info/intro-buildoptions.json || \
		meson configure $(BUILD) --prefix=$(PREFIX)
	ninja -C $(BUILD)
	meson install -C $(BUILD)

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

lint: $(BUILD)/build.ninja
	dev/check.sh
	dev/tidy.sh

clean:
	rm -rf $(BUILD)
