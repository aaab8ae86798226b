cat("r", commandArgs(TRUE)[1], "\n")
