"""Rules in CEL on custom resources (`x-kubernetes-validations`). `custom.py` asks for them."""
