"""Ask the contestants in turn, and report: environments, processes, plan, tables and plots."""
