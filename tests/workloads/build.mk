# Programs that know nothing of the product: a training run and a player of graphs.
DIGITS_SRC := $(wildcard tests/workloads/digits/*.cu tests/workloads/digits/*.cpp)
DIGITS_OBJ := $(patsubst tests/%,$(BUILD)/obj/tests/%.nv.o,$(DIGITS_SRC))
NVCC_ARCH ?=
NVCCFLAGS := -std=c++17 -O2 -cudart shared $(NVCC_ARCH) -Xcompiler -Wall,-Wextra

$(BUILD)/obj/tests/workloads/digits/%.nv.o: tests/workloads/digits/% $(wildcard tests/workloads/digits/*.h tests/workloads/digits/*.cuh)
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) -DDIGITS_DATA='"$(abspath tests/workloads/digits/digits.csv.gz)"' -c $< -o $@
$(BUILD)/workloads/digits: $(DIGITS_OBJ)
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) $^ -lz -o $@
ALL += $(BUILD)/workloads/digits
