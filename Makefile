# Tarn: a small front for Meson. `make demo` and `make check` are all a newcomer needs.
BUILD ?= build

.PHONY: all clean
all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

clean:
	rm -rf $(BUILD)
