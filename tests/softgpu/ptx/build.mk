# The PTX engine: build/softgpu/libptx.a, its tests and its bench.
PTX_DIR := tests/softgpu/ptx
# Instruction handlers are built once per instruction set and chosen at run time.
PTX_OPS := $(wildcard $(PTX_DIR)/ops_*.cpp)
PTX_SRCS := $(filter-out $(PTX_OPS) $(PTX_DIR)/bench.cpp,$(wildcard $(PTX_DIR)/*.cpp))
PTX_OPS_OBJS := $(foreach isa,base avx2,$(patsubst $(PTX_DIR)/%.cpp,$(BUILD)/obj/$(PTX_DIR)/$(isa)/%.o,$(PTX_OPS)))
PTX_OPS_FLAGS := -O3 -fno-strict-aliasing -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-pedantic

$(BUILD)/obj/$(PTX_DIR)/base/%.o: $(PTX_DIR)/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(PTX_OPS_FLAGS) -DSOFTGPU_ISA=base -march=x86-64-v2 -MMD -MP -c $< -o $@
$(BUILD)/obj/$(PTX_DIR)/avx2/%.o: $(PTX_DIR)/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(PTX_OPS_FLAGS) -DSOFTGPU_ISA=avx2 -march=x86-64-v3 -MMD -MP -c $< -o $@

PTX_OBJS := $(call obj,$(PTX_SRCS)) $(PTX_OPS_OBJS)
$(call obj,$(PTX_SRCS)): EXTRA_CXXFLAGS += -fno-strict-aliasing -mpopcnt

$(BUILD)/softgpu/libptx.a: $(PTX_OBJS)
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^

# Tests run kernels that nvcc compiles at build time.
PTX_KERNEL_SRCS := $(wildcard $(PTX_DIR)/kernels/*.cu)
PTX_KERNELS := $(patsubst $(PTX_DIR)/kernels/%.cu,$(BUILD)/softgpu/kernels/%.ptx,$(PTX_KERNEL_SRCS))
PTX_ARCH ?= compute_75
$(BUILD)/softgpu/kernels/%_80.ptx: PTX_ARCH = compute_80
$(BUILD)/softgpu/kernels/%_90.ptx: PTX_ARCH = compute_90
$(BUILD)/softgpu/kernels/semantics.ptx: $(PTX_DIR)/kernels/semantics.h
$(BUILD)/softgpu/kernels/%.ptx: $(PTX_DIR)/kernels/%.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -fmad=$(if $(findstring semantics,$@),false,true) -ptx -arch=$(PTX_ARCH) $< -o $@

PTX_TEST_SRCS := $(wildcard tests/unit/softgpu/ptx_*.cpp)
$(call obj,$(PTX_TEST_SRCS)): EXTRA_CXXFLAGS += -DPTX_KERNELS='"$(BUILD)/softgpu/kernels"' -Wno-pedantic
$(BUILD)/tests/ptx_tests: $(call obj,$(PTX_TEST_SRCS)) $(BUILD)/softgpu/libptx.a $(CATCH_MAIN) | $(PTX_KERNELS)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -o $@ -pthread
TEST_SUITES += $(BUILD)/tests/ptx_tests

$(BUILD)/softgpu/ptx_bench: $(call obj,$(PTX_DIR)/bench.cpp) $(BUILD)/softgpu/libptx.a | $(PTX_KERNELS)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -o $@ -pthread
BENCHES += $(BUILD)/softgpu/ptx_bench
