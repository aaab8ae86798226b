import helper
print(helper.x)
