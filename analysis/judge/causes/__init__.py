"""Which election lost a record or took the HW back, and what allowed it."""
