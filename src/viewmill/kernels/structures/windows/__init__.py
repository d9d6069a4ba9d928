"""The kernels of shared windows: `kernels.window_library` compiles each file by itself."""
