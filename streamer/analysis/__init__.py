"""What measures, compares and explains. Nothing that judges pages imports it."""
