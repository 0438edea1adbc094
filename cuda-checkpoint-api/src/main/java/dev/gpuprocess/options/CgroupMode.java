package dev.gpuprocess.options;

/** What is done with the cgroups of a tree (CRIU {@code manage-cgroups}). */
public enum CgroupMode {
  /** They are neither dumped nor restored; the tree ends up in the cgroup of the restoring CRIU. */
  IGNORE,
  /** The tree is moved into its cgroups, which must exist. */
  NONE,
  /** As {@link #NONE}; the properties of the cgroups are restored too. */
  PROPERTIES,
  /** Missing cgroups are created, and only the properties of those are restored. CRIU's default. */
  SOFT,
  /** All cgroups are created and all properties are restored. */
  FULL,
  /** As {@link #FULL}; none of the cgroups may exist before. */
  STRICT
}
