"""The paper's baselines as compiled programs: the same kernels, other views (F-IVM, section 8)."""
