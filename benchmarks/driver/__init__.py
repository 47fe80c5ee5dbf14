"""What asks the contestants in turn, and tells what came out: environments, processes, plan and report."""
