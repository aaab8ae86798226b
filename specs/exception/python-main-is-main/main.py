import sys, __main__
print(__name__, __file__, sys.argv, sys.path[0], __main__.__dict__ is globals())
