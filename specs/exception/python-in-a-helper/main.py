import helper
helper.fail()
