# The software GPU: a driver (libcuda.so.1) and a runtime (libcudart.so.13) of our own, for tests on machines without
# a GPU. Nothing of it is installed.
SOFTGPU := $(BUILD)/softgpu
SOFTGPU_DRIVER_CPP := $(wildcard tests/softgpu/driver/*.cpp)
SOFTGPU_TABLES := $(SOFTGPU)/gen/driver_tables.cpp

-include tests/softgpu/ptx/build.mk tests/softgpu/runtime/build.mk

$(SOFTGPU_TABLES): tests/softgpu/driver/generate_tables.py $(SOFTGPU_DRIVER_CPP)
	@mkdir -p $(@D)
	python3 $< $(CUDA_HOME) $@ $(SOFTGPU_DRIVER_CPP)
	@touch $@
$(BUILD)/obj/tests/softgpu/driver_tables.o: $(SOFTGPU_TABLES)
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -Wno-shadow -Wno-deprecated-declarations -MMD -MP -c $< -o $@

SOFTGPU_DRIVER_OBJ := $(call obj,$(SOFTGPU_DRIVER_CPP)) $(BUILD)/obj/tests/softgpu/driver_tables.o
# It has threads of its own, so it stays when a program that looked at it closes it again (nodelete).
$(SOFTGPU)/libcuda.so.1: $(SOFTGPU_DRIVER_OBJ) $(SOFTGPU)/libptx.a tests/softgpu/driver/exports.map
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,--version-script=tests/softgpu/driver/exports.map \
	  -Wl,-z,defs -o $@.new $(filter %.o %.a,$^) -llz4 -lzstd -lpthread -ldl
	mv $@.new $@
	ln -sf libcuda.so.1 $(@D)/libcuda.so

# For programs that ask NVRTC for machine code: scripts/softgpu --nvrtc-ptx.
$(SOFTGPU)/libnvrtc_ptx.so: $(BUILD)/obj/tests/softgpu/nvrtc/ptx_for_cubin.o
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -o $@ $^ -ldl

ALL += $(SOFTGPU)/libcuda.so.1 $(SOFTGPU)/libnvrtc_ptx.so

# Every case runs in a child process of its own, with its own settings.
SOFTGPU_DRIVER_TESTS := $(call obj,$(wildcard tests/unit/softgpu/driver_*.cpp))
$(BUILD)/tests/softgpu_driver_tests: $(SOFTGPU_DRIVER_TESTS) $(CATCH_MAIN) $(call obj,replayer/address_search.cpp) $(SOFTGPU)/libcuda.so.1
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(SOFTGPU) -lcuda -Wl,-rpath,'$$ORIGIN/../softgpu' -lpthread
TEST_DEPS += $(BUILD)/tests/softgpu_driver_tests
TEST_SUITES += $(BUILD)/tests/softgpu_driver_tests
