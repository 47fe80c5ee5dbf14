"""What tests of several rooms share: checks of histories, test doubles, and actions at every step."""
