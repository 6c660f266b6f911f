"""The process kubelet: runs the Pods of one machine as child processes behind shims (CORRECTNESS 35 to 37)."""
