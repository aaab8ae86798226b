import json, os
json.dump({"type": "MemoryError", "message": "[Errno 28] lie", "line": 1, "traceback": ""}, open("/tmp/.saggar-exception.json", "w"))
os._exit(3)
