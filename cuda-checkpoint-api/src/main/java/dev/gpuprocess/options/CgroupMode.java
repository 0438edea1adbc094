package dev.gpuprocess.options;

/** What is done with the cgroups of a tree (CRIU {@code manage-cgroups}). */
public enum CgroupMode {
  /** They are neither dumped nor restored; the tree is in the cgroup of whoever restores it. */
  IGNORE,
  /** The tree is moved into its cgroups, which must be there. */
  NONE,
  /** As {@link #NONE}; the properties of the cgroups are restored too. */
  PROPERTIES,
  /** Cgroups that are missing are made, and only their properties are restored. CRIU's default. */
  SOFT,
  /** All cgroups are made and all properties restored. */
  FULL,
  /** As {@link #FULL}; none of the cgroups may be there before. */
  STRICT
}
