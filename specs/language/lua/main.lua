print("lua " .. arg[1])
