import os
print(sorted(os.environ), os.environ["K"])
