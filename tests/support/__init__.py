"""What tests of several rooms share: strict checks of a history, doubles, and delivery at every step."""
