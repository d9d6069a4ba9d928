"""Compile the kernels of a program in a helper process while the interpreted ones work.

`warm.py` compiles or loads everything a program calls, `process.py` is the helper process, and
`queue.py` hands programs to helpers and tells when one of them is ready.
"""
