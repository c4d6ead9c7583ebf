"""What people sign: a plan before the run, a certificate after it; and what anybody can verify offline."""
