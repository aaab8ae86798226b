import json
json.dump({"type": "Forged", "message": "", "line": 1, "traceback": ""}, open("/tmp/.saggar-exception.json", "w"))
