# The software CUDA device: PTX engine, driver and runtime.
-include $(wildcard tests/softgpu/*/build.mk)
