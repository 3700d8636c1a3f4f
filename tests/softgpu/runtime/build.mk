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
