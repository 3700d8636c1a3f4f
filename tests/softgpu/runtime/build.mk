# Our CUDA runtime library, on the public driver API. It opens libcuda.so.1 when first used, as NVIDIA's does.
SOFTRT := $(BUILD)/softgpu/libcudart.so.13
SOFTRT_DIR := tests/softgpu/runtime
SOFTRT_OBJ := $(call obj,$(wildcard $(SOFTRT_DIR)/*.cpp))
SOFTRT_GEN := $(BUILD)/gen/softgpu/runtime

$(SOFTRT_OBJ): EXTRA_CXXFLAGS := -I$(SOFTRT_GEN)
$(SOFTRT_OBJ): $(SOFTRT_GEN)/error_table.h
$(SOFTRT_GEN)/error_table.h: $(SOFTRT_DIR)/generate_tables.py
	@mkdir -p $(@D)
	$< $(CUDA_HOME) $(@D)
$(SOFTRT): $(SOFTRT_OBJ) $(SOFTRT_DIR)/exports.map
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=$(SOFTRT_DIR)/exports.map \
		-Wl,-z,defs $(SOFTRT_OBJ) -ldl -o $@
	ln -sf libcudart.so.13 $(@D)/libcudart.so
ALL += $(SOFTRT)

# Tests: their kernels are built by nvcc, as any program's. The driver is loaded beforehand, so that the runtime finds it.
SOFTRT_TESTS := $(call obj,$(wildcard tests/unit/softgpu/runtime_*.cpp))
$(BUILD)/obj/tests/unit/softgpu/runtime_kernels.nv.o: tests/unit/softgpu/runtime_kernels.cu tests/unit/softgpu/runtime_kernels.h
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared -c $< -o $@
$(BUILD)/tests/softgpu_runtime_tests: $(SOFTRT_TESTS) $(BUILD)/obj/tests/unit/softgpu/runtime_kernels.nv.o $(CATCH_MAIN) \
		$(SOFTRT) $(BUILD)/softgpu/libcuda.so.1
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(BUILD)/softgpu -lcudart -lcuda -Wl,-rpath,'$$ORIGIN/../softgpu'
TEST_DEPS += $(BUILD)/tests/softgpu_runtime_tests
TEST_SUITES += $(BUILD)/tests/softgpu_runtime_tests
$(BUILD)/tests/runtime_per_thread: tests/unit/softgpu/runtime_per_thread.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared --default-stream per-thread $< -o $@
TEST_DEPS += $(BUILD)/tests/runtime_per_thread
