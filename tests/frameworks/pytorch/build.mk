# Kernels of our own for PyTorch on the software GPU (tests/frameworks/pytorch): `make test-pytorch`. Not part of `all`: PyTorch is
# large to install, and compiling against it takes minutes.
TORCH_HOME := $(BUILD)/pytorch
TORCH_OPS := $(TORCH_HOME)/libops.so
TORCH_OPS_HOST := $(patsubst tests/frameworks/pytorch/ops/%.cpp,$(TORCH_HOME)/obj/%.o,$(wildcard tests/frameworks/pytorch/ops/*.cpp))
TORCH_OPS_DEVICE := $(patsubst tests/frameworks/pytorch/ops/%.cu,$(TORCH_HOME)/obj/%.cu.o,$(wildcard tests/frameworks/pytorch/ops/*.cu))
# Known only when the environment is there.
TORCH_SITE = $(wildcard $(TORCH_HOME)/venv/lib/python3.*/site-packages)
TORCH_CXXFLAGS = -std=c++20 -O1 -fPIC -w -isystem $(TORCH_SITE)/torch/include -isystem $(CUDA_HOME)/include

$(TORCH_HOME)/installed: scripts/frameworks/pytorch/setup.sh scripts/frameworks/pytorch/make_link_stubs.py
	BUILD=$(BUILD) scripts/frameworks/pytorch/setup.sh
	touch $@

$(TORCH_HOME)/obj/%.o: tests/frameworks/pytorch/ops/%.cpp | $(TORCH_HOME)/installed
	@mkdir -p $(@D)
	$(CXX) $(TORCH_CXXFLAGS) -MMD -MP -c $< -o $@
$(TORCH_HOME)/obj/%.cu.o: tests/frameworks/pytorch/ops/%.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++20 -O2 --fmad=false -cudart shared -gencode arch=compute_75,code=compute_75 -Xcompiler -fPIC -MD -MP -c $< -o $@

$(TORCH_OPS): $(TORCH_OPS_HOST) $(TORCH_OPS_DEVICE)
	$(CXX) -shared -o $@ $^ -L$(TORCH_SITE)/torch/lib -L$(CUDA_HOME)/lib64 -Wl,--no-as-needed -ltorch -ltorch_cpu -ltorch_cuda -lc10 -lc10_cuda -lcudart

-include $(wildcard $(TORCH_HOME)/obj/*.d)

.PHONY: test-pytorch
test-pytorch: all $(TORCH_OPS)
	BUILD=$(BUILD) scripts/frameworks/pytorch/softgpu.sh -- python tests/frameworks/pytorch/compare_ops.py
	tests/frameworks/pytorch/run.py --build $(BUILD)
