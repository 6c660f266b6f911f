"""GPUs of one machine: found by the vendor's library, given to Pods one by one, free again once no process holds
them."""
