open("/nowhere/x")
