"""mini-swe-agent: mini_agent.py MODEL TEMPERATURE MESSAGE_FILE RESULT_FILE"""

import json
import os
import subprocess
import sys
from pathlib import Path

model, temperature, message_file, result_file = sys.argv[1:]
# HOME is a fresh folder outside of the checkout.
trajectory = Path.home() / "trajectory.json"
settings = {
    "MSWEA_CONFIGURED": "true",  # ask no questions
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",  # run models without a known price, too
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # fetch no price list
}
command = [
    "mini", "--model", model, "--yolo", "--exit-immediately", "--output", str(trajectory),
    "--config", "mini.yaml", "--config", f"model.model_kwargs.temperature={temperature}",
    "--task", Path(message_file).read_text(encoding="utf-8", errors="replace"),
]  # fmt: skip
code = subprocess.run(command, env={**os.environ, **settings}, check=False).returncode
if trajectory.exists():
    messages = json.loads(trajectory.read_text())["messages"]
    replies = [m["extra"] for m in messages if "response" in m.get("extra", {})]
    costs = [reply["cost"] for reply in replies]
    usages = [reply["response"]["usage"] for reply in replies]
    tokens = {
        "prompt": sum(usage["prompt_tokens"] for usage in usages),
        "completion": sum(usage["completion_tokens"] for usage in usages),
    }
    # mini-swe-agent writes 0 for a model without a known price.
    spent = {"cost": sum(costs) if all(costs) else None, "tokens": tokens}
    Path(result_file).write_text(json.dumps(spent))
sys.exit(code)
