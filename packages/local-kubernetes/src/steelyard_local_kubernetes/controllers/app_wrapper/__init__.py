"""Controller of AppWrappers: resources that are made, watched over and removed as one."""
