"""1,000 Evaluations with instant Jobs through the operator, beside a kopf operator that makes the same objects."""
