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

# The player talks to the driver itself; its kernel is compiled to PTX text and embedded.
PLAYER_DIR := tests/workloads/graph_player
PLAYER_OBJ := $(call obj,$(wildcard $(PLAYER_DIR)/*.cpp))
PLAYER_GEN := $(BUILD)/gen/graph_player

$(PLAYER_GEN)/op_ptx.h: $(PLAYER_DIR)/op.cu $(PLAYER_DIR)/op.h
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -arch=compute_75 -ptx $< -o $(@D)/op.ptx
	{ echo 'inline constexpr char op_ptx[] = R"ptx('; cat $(@D)/op.ptx; echo ')ptx";'; } > $@
$(PLAYER_OBJ): EXTRA_CXXFLAGS := -I$(PLAYER_GEN)
$(PLAYER_OBJ): $(PLAYER_GEN)/op_ptx.h
$(BUILD)/workloads/graph_player: $(PLAYER_OBJ)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -L$(CUDA_HOME)/lib64/stubs -lcuda -o $@
ALL += $(BUILD)/workloads/graph_player

# What a driver costs: part of scripts/gpu_check.sh.
$(BUILD)/workloads/gpu_facts: $(call obj,$(wildcard tests/workloads/gpu_facts/*.cpp))
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -L$(CUDA_HOME)/lib64/stubs -lcuda -o $@
ALL += $(BUILD)/workloads/gpu_facts
